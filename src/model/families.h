// The families of published models: how one's config.json and weight file say what a ModelConfig and a
// ParameterTable say. A family is data and two functions, one file each (family_<name>.cpp);
// docs/adding-a-family.md walks through it.
//
// A config.json key that the family's own implementation never reads has no effect there and none here. A key
// that it does read and plumb can't express is refused by name unless it has its neutral value.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/json_fields.h"
#include "nn/parameter.h"
#include "plumb/config.h"

namespace plumb {

// How a tensor of a file differs from the parameter that it holds.
struct Layout {
  bool by_group = false;    // rows of Q, K and V: for each head of keys its queries, its key, its value
  bool in_turns = false;    // rows of gate and up in turns
  bool transposed = false;  // a matrix (in, out)
  bool stacked = false;     // all experts in one tensor, along a first dimension
  bool by_head = false;     // the file has a tensor for each head, at the * of its name
};

// Names in plumb's words and the file's. A module ("decoder.#.attention.output", # any layer) brings its
// parameters with it: weight and bias as they are, a norm's gain as weight. A second number is a *
// ("decoder.#.feed_forward.experts.*.up"). A whole parameter's name comes before its module's.
struct TensorName {
  std::string_view plumb, file;
  Layout layout{};
};

struct Family {
  std::string_view type;          // model_type
  std::string_view architecture;  // the class that config.json names
  // Missing keys have the defaults of the family's own implementation. Throws Error(config, unsupported).
  ModelConfig (*read)(const JsonFields& fields);
  // What read() reads, for a config that read() can give; the rest of a config is simply not said.
  void (*write)(const ModelConfig& config, JsonObject out);
  std::string_view prefix;  // of the base model's tensors: files have it or lack it
  std::span<const TensorName> names;
  // Before `names` where attention and feed-forward stand side by side with a norm each.
  std::span<const TensorName> two_norms;
  std::span<const TensorName> copies;  // file tensors that may repeat a tied parameter, bit for bit
  // What an untied head reads where the file has it, instead of the tensor that `names` says; it is saved as
  // both.
  std::span<const TensorName> untied;
  std::span<const std::string_view>
      ignored;  // tensors without the prefix that old files hold and nothing reads
  bool predicts_ahead =
      false;  // files hold one more layer, which predicts the token after next; nothing reads it
};

// Throws Error(unsupported) naming the ones there are. plumb's own layout, "plumbline", is one of them.
const Family& family(const std::string& model_type);
std::span<const Family* const> families();

// Where the family's weight file has a parameter; the name is "" if nowhere.
struct FileName {
  std::string name;
  Layout layout;
};
FileName file_name(const ModelConfig& config, std::string_view parameter);

// A config.json's text, and the inverse. What a family's files can't say and running does not need (dropout,
// init) goes into an object of its own, which other engines leave alone. `name` of the file, for messages.
// What was read is valid.
ModelConfig read_config(const std::string& text, const std::string& name);
std::string write_config(const ModelConfig& config, std::string_view dtype);

extern const Family kGpt2, kBert, kMarian, kPlumbline;
extern const Family kMixtral, kQwen2Moe, kQwen3Moe, kOlmoe, kGraniteMoe, kGptOss, kDeepseekV2, kDeepseekV3;
extern const Family kGptBigCode, kGptNeo, kGptJ, kGptNeoX, kOpt, kBloom, kMpt, kFalcon, kPhi, kStableLm,
    kStarCoder2, kPersimmon, kNemotron;
extern const Family kLlama, kMistral, kMinistral, kMinistral3, kArcee, kQwen2, kQwen3, kOlmo, kOlmo2,
    kExaone4, kSmolLm3, kSeedOss, kHunyuanV1Dense, kGranite, kGemma, kGemma2, kGemma3Text, kErnie45, kHelium,
    kCohere, kCohere2, kPhi3, kGlm, kGlm4;

// Shared by the families' readers and writers.
Activation activation_named(const JsonFields& fields, const char* key, const char* absent);
std::string_view activation_name(Activation activation);
// Refuses a key that is there with another value than the neutral one.
void refuse_unless(const JsonFields& fields, const char* key, const JsonValue& neutral);
// Says that training here goes without what the key asks for.
void warn_unless_zero(const JsonFields& fields, const char* key);
void read_ids(const JsonFields& fields, ModelConfig& config);  // bos, eos, pad; absent: as they are
void write_ids(const ModelConfig& config, JsonObject out);

}  // namespace plumb
