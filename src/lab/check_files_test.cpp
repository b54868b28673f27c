#include "base/file.h"
#include "lab/check_cases.h"
#include "model/safetensors.h"

namespace plumb::check_test {

std::vector<Case> file_cases() {
  const auto config = [](const nlohmann::json& patch) {
    return [patch](Made& m) { m.config_patch = patch; };
  };
  const auto llama = [](Made& m) {
    m.config.model_type = "llama";
    m.config.layer = family_default("llama").layer;
    m.config.init = Init::normal;
  };
  return {
      {"PL001", "unknown_key", config({{"widht", 3}})},
      {"PL001", "recipe", recipe([](ModelConfig& c, TrainOptions&) { c.width = -1; }),
       recipe([](ModelConfig&, TrainOptions&) {})},
      {"PL002", "unknown_family", config({{"model_type", "mamba"}})},
      {"PL002", "quantised",
       [llama](Made& m) {
         llama(m);
         m.config_patch = {{"quantization_config", {{"bits", 4}}}};
       },
       llama},
      {"PL003", "cut",
       [](Made& m) {
         m.files = [](const std::string& folder) {
           const std::string path = folder + "/model.safetensors", bytes = read_file(path);
           write_file_atomically(path, bytes.substr(0, bytes.size() - 1));
         };
       }},
      {"PL003", "missing",
       [](Made& m) {
         m.files = [](const std::string& folder) { remove_file(folder + "/model.safetensors"); };
       }},
      {"PL004", "number_as_text",
       [](Made& m) {
         m.config_patch = {{"model_type", "olmo2"}, {"rms_norm_eps", "1e-6"}};
       },
       [](Made& m) {
         m.config_patch = {{"model_type", "olmo2"}, {"rms_norm_eps", 1e-6}};
       }},
      {"PL005", "llama_as_gpt2",
       [llama](Made& m) {
         llama(m);
         m.config_patch = {{"architectures", {"GPT2LMHeadModel"}}};
       },
       llama},
      {"PL006", "more_layers", config({{"decoder_layers", 3}})},
      {"PL006", "other_shape", config({{"ffn_width", 40}})},
      {"PL006", "fewer_layers", config({{"decoder_layers", 1}})},
      {"PL007", "no_tokenizer",
       [](Made& m) {
         m.files = [](const std::string& folder) { write_file_atomically(folder + "/tokenizer.json", "{}"); };
       },
       [](Made& m) { m.tokenizer = true; }},
  };
}

}  // namespace plumb::check_test
