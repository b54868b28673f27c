// What tests of training share: a folder, a small text, small models of each kind.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "base/test_support.h"
#include "model/transformer.h"
#include "plumb/error.h"
#include "plumb/signal.h"
#include "plumb/trainer.h"

namespace plumb {

// A text with structure to learn: sentences over a few words.
inline std::string small_text() {
  const char* words[] = {"the ", "cat ", "sat ", "on ", "a ", "mat ", "and ", "saw ", "the ", "dog.\n"};
  std::string text;
  uint64_t x = 1;
  while (text.size() < 20000) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    text += words[(text.size() / 3 + (x >> 62)) % 10];
  }
  return text;
}

inline Dataset small_text_data(const TempFolder& folder, bool masked = false) {
  const std::string path = folder / "text.txt";
  if (!std::filesystem::exists(path)) std::ofstream(path) << small_text();
  const TextOptions options{.held_out = 0.1, .cache_folder = folder / "cache"};
  return masked ? Dataset::masked_text(path, Tokenizer::bytes(), options)
                : Dataset::text(path, Tokenizer::bytes(), options);
}

inline ModelConfig small_config(const Dataset& data) {
  ModelConfig c;
  c.vocab_size = data.vocab_size();
  c.width = 32;
  c.max_length = 64;
  c.layer.heads = 2;
  const int64_t layers = 2;
  c.encoder_layers = data.kind() == DatasetKind::language_model ? 0 : layers;
  c.decoder_layers = data.kind() == DatasetKind::masked ? 0 : layers;
  c.pad_id = data.tokenizer().special(TokenRole::pad).value_or(-1);
  if (data.kind() == DatasetKind::sequence_to_sequence)
    c.decoder_start_id = *data.tokenizer().special(TokenRole::bos);
  return c;
}

inline TrainOptions small_options() {
  return {.steps = 12,
          .batch = 4,
          .length = 16,
          .lr = 3e-3,
          .warmup = 3,
          .eval_every = 5,
          .eval_batches = 2,
          .checkpoint_every = 4};
}

// The lines of metrics.jsonl without what depends on the clock.
inline std::vector<Json> metrics_of(const std::string& run) {
  std::ifstream in(run + "/metrics.jsonl");
  std::vector<Json> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(Json::parse(line));
    lines.back().erase("seconds");
  }
  return lines;
}

inline std::vector<float> values_of(const Model& model) {
  std::vector<float> all;
  for (const auto& p : model.transformer().parameters().all()) {
    all.insert(all.end(), p->value.f32(), p->value.f32() + p->value.numel());
  }
  return all;
}

// What is logged while `f` runs.
template <class F>
std::string logged(const F& f) {
  set_log_level(LogLevel::warning);
  testing::internal::CaptureStderr();
  f();
  const std::string text = testing::internal::GetCapturedStderr();
  set_log_level(LogLevel::silent);
  return text;
}

class TrainerTest : public ::testing::Test {
 protected:
  TrainerTest() { set_log_level(LogLevel::silent); }
  ~TrainerTest() override { forget_stop(); }
  TempFolder folder;
};

}  // namespace plumb
