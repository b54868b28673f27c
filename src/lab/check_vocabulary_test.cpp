#include "base/file.h"
#include "lab/check_cases.h"

namespace plumb::check_test {
namespace {

Change with_tokenizer(const std::function<void(Made&)>& more = {}) {
  return [=](Made& m) {
    m.tokenizer = true;
    if (more) more(m);
  };
}

Change llama(const nlohmann::json& config, const nlohmann::json& generation = nullptr) {
  return [=](Made& m) {
    m.config.model_type = "llama";
    m.config.layer = family_default("llama").layer;
    m.config.init = Init::normal;
    m.config_patch = config;
    m.generation_patch = generation;
  };
}

Change marian(int64_t start) {
  return [=](Made& m) {
    m.config = family_default("marian");
    m.config.vocab_size = 60;
    m.config.eos_ids = {0};
    m.config.pad_id = 59;
    m.config.decoder_start_id = start;
  };
}

void scale_row(ParameterTable& t, int64_t id, float factor) {
  const Tensor& w = t.find("token_embedding.weight")->value;
  for (int64_t i = 0; i < w.width(); ++i) w.f32()[id * w.width() + i] *= factor;
}

Change positions_and_text(int longest) {
  return with_tokenizer([=](Made& m) {
    m.config.positions = Positions::learned;
    m.files = [=](const std::string& folder) {
      write_file_atomically(folder + "/tokenizer_config.json",
                            "{\"model_max_length\": " + std::to_string(longest) + "}");
    };
  });
}

}  // namespace

std::vector<Case> vocabulary_cases() {
  return {
      {"PL601", "eos_beyond", llama({{"eos_token_id", 260}}), llama({{"eos_token_id", 259}})},
      {"PL601", "negative_pad", llama({{"pad_token_id", -7}}), llama({{"pad_token_id", -1}})},
      {"PL601", "in_a_list", llama({{"eos_token_id", {2, 4000}}}), llama({{"eos_token_id", {2, 4}}})},
      {"PL601", "own_layout",
       [](Made& m) {
         m.config_patch = {{"mask_id", 9999}};
       }},
      {"PL602", "eos", with_tokenizer([](Made& m) { m.config.eos_ids = {2}; }), with_tokenizer()},
      {"PL602", "pad", with_tokenizer([](Made& m) { m.config.pad_id = 0; }), with_tokenizer()},
      {"PL603", "fewer_rows", with_tokenizer([](Made& m) {
         m.config.vocab_size = 200;
         m.config.bos_id = m.config.pad_id = m.config.mask_id = -1;
         m.config.eos_ids = {2};
       }),
       with_tokenizer()},
      {"PL604", "spare_rows", with_tokenizer([](Made& m) { m.config.vocab_size = 1000; }), with_tokenizer()},
      {"PL605", "dead_row", weights([](ParameterTable& t) { scale_row(t, 17, 0.01f); }),
       weights([](ParameterTable& t) { scale_row(t, 17, 0.3f); })},
      {"PL605", "padding_may_be_zero", weights([](ParameterTable& t) { scale_row(t, 17, 50); }),
       weights([](ParameterTable& t) { scale_row(t, 257, 0); })},
      {"PL606", "copied_row", weights([](ParameterTable& t) {
         const Tensor& w = t.find("token_embedding.weight")->value;
         std::copy_n(w.f32(), w.width(), w.f32() + 9 * w.width());
       })},
      {"PL607", "eos_beyond", llama(nullptr, {{"eos_token_id", {2, 400}}}),
       llama(nullptr, {{"eos_token_id", {2}}})},
      {"PL608", "other_eos", llama({{"eos_token_id", 2}}, {{"eos_token_id", 3}}),
       llama({{"eos_token_id", 2}}, {{"eos_token_id", {3, 2}}})},
      {"PL609", "no_start", marian(-1), marian(59)},
      {"PL610", "no_end", [](Made& m) { m.config.eos_ids.clear(); }},
      {"PL611", "pad_is_eos", llama({{"pad_token_id", 2}, {"eos_token_id", 2}}),
       llama({{"pad_token_id", 1}, {"eos_token_id", 2}})},
      {"PL612", "longer_texts", positions_and_text(512), positions_and_text(64)},
  };
}

}  // namespace plumb::check_test
