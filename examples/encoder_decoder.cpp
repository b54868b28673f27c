// Trains a small encoder-decoder to reverse its input, and has it reverse sequences that it has not seen.
//   encoder_decoder [FOLDER [STEPS]]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "plumb/dataset.h"
#include "plumb/error.h"
#include "plumb/generator.h"
#include "plumb/model.h"
#include "plumb/trainer.h"

namespace {

plumb::ModelConfig translator_shape(const plumb::Tokenizer& tokenizer) {
  plumb::ModelConfig c;
  c.vocab_size = tokenizer.vocab_size();
  c.width = 128;
  c.encoder_layers = c.decoder_layers = 2;
  c.max_length = 64;
  c.layer.heads = 4;
  c.bos_id = c.decoder_start_id = tokenizer.special(plumb::TokenRole::bos).value();
  c.eos_ids = {tokenizer.special(plumb::TokenRole::eos).value()};
  c.pad_id = tokenizer.special(plumb::TokenRole::pad).value();
  return c;
}

plumb::TrainOptions training(int64_t steps) {
  plumb::TrainOptions o;
  o.steps = steps;
  o.batch = 64;
  o.length = 16;
  o.lr = 2e-3;
  o.warmup = steps / 10;
  return o;
}

void run(const std::string& folder, int64_t steps) {
  const plumb::Dataset data = plumb::Dataset::synthetic("reverse");
  plumb::Model model = plumb::Model::create(translator_shape(data.tokenizer()), 1);
  plumb::Trainer trainer(model, data, training(steps), folder);
  trainer.run();  // shows its progress; callbacks get every step and evaluation

  const plumb::Tokenizer& tokenizer = data.tokenizer();
  const plumb::Generator generator(model, tokenizer);
  const std::vector<std::string> sources = {"hello", "plumbline", "2026", "abcdefghij"};
  const auto results = generator.generate(sources, generator.defaults());
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::string right(sources[i].rbegin(), sources[i].rend());
    std::printf("%-12s %-12s %s\n", sources[i].c_str(), results[i].text.c_str(),
                results[i].text == right ? "right" : "wrong");
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : "encoder-decoder-run", argc > 2 ? std::atoll(argv[2]) : 600);
  } catch (const plumb::Error& error) {
    std::fprintf(stderr, "encoder_decoder: %s\n", error.what());
    return 1;
  }
}
