#include "model/families.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "model/config_json.h"
#include "model/head_classes.h"
#include "plumb/error.h"
#include "plumb/model.h"
#include "plumb/suggest.h"

namespace plumb {
namespace {

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(at, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

constexpr const Family* kFamilies[] = {
    &kPlumbline,  &kGpt2,     &kLlama,          &kBert,      &kMarian,     &kMixtral,    &kQwen2Moe,
    &kQwen3Moe,   &kOlmoe,    &kGraniteMoe,     &kGptOss,    &kDeepseekV2, &kDeepseekV3, &kGptBigCode,
    &kGptNeo,     &kGptJ,     &kGptNeoX,        &kOpt,       &kBloom,      &kMpt,        &kFalcon,
    &kPhi,        &kStableLm, &kStarCoder2,     &kPersimmon, &kNemotron,   &kMistral,    &kMinistral,
    &kMinistral3, &kArcee,    &kQwen2,          &kQwen3,     &kOlmo,       &kOlmo2,      &kExaone4,
    &kSmolLm3,    &kSeedOss,  &kHunyuanV1Dense, &kGranite,   &kGemma,      &kGemma2,     &kGemma3Text,
    &kErnie45,    &kHelium,   &kCohere,         &kCohere2,   &kPhi3,       &kGlm,        &kGlm4};

// Of no consequence to what a model computes when it runs.
constexpr std::string_view kTrainingFields[] = {
    "dropout",    "attention_dropout", "embedding_dropout", "head_dropout", "init",           "init_std",
    "router_aux", "router_aux_joint",  "pad_untrained",     "mask_id",      "unit_embeddings"};
constexpr const char* kTrainingKey = "plumb_training";

bool is_training_field(std::string_view name) {
  return std::find(std::begin(kTrainingFields), std::end(kTrainingFields), name) != std::end(kTrainingFields);
}

OrderedJson training_fields(ModelConfig config) {
  config.init = init_of(config);
  OrderedJson j = config_fields(config);
  OrderedJson picked = OrderedJson::object();
  for (const std::string_view name : kTrainingFields) picked[std::string(name)] = j.at(std::string(name));
  return picked;
}

// What a config says of the model, in words that two configs of equal models share: derived values filled in,
// what has no effect left out.
using Said = std::vector<std::pair<std::string, std::string>>;

void forget_unused_experts(LayerConfig& c) {
  const LayerConfig dense;
  if (c.shared_experts == 0) c.shared_width = dense.shared_width;
  if (c.experts > 0) return;
  c.experts_per_token = dense.experts_per_token;
  c.router = dense.router;
  c.shared_gate = dense.shared_gate;
  c.router_normalize = dense.router_normalize;
  c.router_bias = dense.router_bias;
  c.router_correction = dense.router_correction;
  c.router_scale = dense.router_scale;
  c.router_groups = dense.router_groups;
  c.router_top_groups = dense.router_top_groups;
  c.router_group_by = dense.router_group_by;
}

void say_sublayer(const ModelConfig& config, Side side, int64_t index, SublayerPart part, Said& said) {
  LayerConfig c = resolved_layer(config, side, index);
  const SublayerFormula f = sublayer_formula(config, side, index, part);
  if (c.attention_scale == 0) c.attention_scale = 1 / std::sqrt(static_cast<double>(c.head_dim));
  if (config.positions != Positions::rope) c.rotary = true;
  if (config.positions != Positions::rope || !c.rotary) c.rope = {};
  forget_unused_experts(c);
  c.norm_in = f.norm_in;
  c.norm_inner = f.norm_inner;
  c.norm_branch = f.norm_branch;
  c.norm_out = f.norm_out;
  c.alpha = f.alpha;
  c.s = f.s;
  c.gate = f.gate;
  c.gate_value = f.gate_value;
  c.shortcut = f.shortcut;
  c.head_scale = f.head_scale;
  c.dual = f.dual;
  c.mixing = f.mixing;
  c.streams = f.streams;
  const std::string where =
      fmt::format(" of {} layer {}", side == Side::encoder ? "encoder" : "decoder", index);
  const OrderedJson fields = layer_fields(c);
  for (const auto& [name, value] : fields.items()) {
    if (name != "placement") said.emplace_back(name + where, dump_json(value, -1));
  }
}

void say_layer(const ModelConfig& config, Side side, int64_t index, Said& said) {
  for (const SublayerPart part : {SublayerPart::attention, SublayerPart::feed_forward}) {
    say_sublayer(config, side, index, part, said);
  }
}

Said say(const ModelConfig& config) {
  Said said;
  const OrderedJson of_layers = layer_fields(LayerConfig{.norm_in = false,
                                                         .norm_inner = false,
                                                         .norm_branch = false,
                                                         .norm_out = false,
                                                         .alpha = 1,
                                                         .s = 1,
                                                         .gate_value = 1,
                                                         .gate = GateKind::constant,
                                                         .shortcut = GateKind::constant,
                                                         .head_scale = false,
                                                         .dual = 0,
                                                         .mixing = Mixing::none});
  const bool both = config.has_encoder() && config.has_decoder();
  const auto silent = [&](std::string_view name) {
    if (name == "model_type" || name == "final_norm" || of_layers.contains(name)) return true;
    if (name == "sinusoidal_split") return config.positions != Positions::sinusoidal;
    if (name == "alibi_max" || name == "alibi_scaled") return config.positions != Positions::alibi;
    if (name == "position_offset") return config.positions != Positions::learned;
    if (name == "depth_alpha") return config.base_layers == 0;
    if (name == "shared_embeddings" || name == "decoder_start_id") return !both;
    return is_training_field(name);
  };
  const OrderedJson fields = config_fields(config);
  for (const auto& [name, value] : fields.items()) {
    if (!silent(name)) said.emplace_back(name, dump_json(value, -1));
  }
  for (const Side side : {Side::encoder, Side::decoder}) {
    const int64_t layers = side == Side::encoder ? config.encoder_layers : config.decoder_layers;
    if (layers > 0) said.emplace_back("final_norm", has_final_norm(config, side) ? "true" : "false");
  }
  for (int64_t i = 0; i < config.encoder_layers; ++i) say_layer(config, Side::encoder, i, said);
  for (int64_t i = 0; i < config.decoder_layers; ++i) say_layer(config, Side::decoder, i, said);
  return said;
}

ModelConfig read_fields(const Family& f, const JsonFields& fields) {
  ModelConfig config = f.read(fields);
  read_head(fields, config);
  return config;
}

void write_fields(const Family& f, const ModelConfig& config, OrderedJson& j) {
  const std::string own = head_class(config).name;
  j["architectures"] = {own.empty() ? std::string(f.architecture) : own};
  f.write(config, JsonObject(j));
  write_head(config, JsonObject(j));
}

// The config that the family's files would give back.
ModelConfig written_and_read(const Family& f, const ModelConfig& config) {
  OrderedJson j = OrderedJson::object();
  write_fields(f, config, j);
  return read_fields(f, JsonFields(Json(j), "config.json"));
}

std::string first_difference(const Family& f, const ModelConfig& config) {
  const Said here = say(config), there = say(written_and_read(f, config));
  for (size_t i = 0; i < here.size() && i < there.size(); ++i) {
    if (here[i] == there[i]) continue;
    return fmt::format(
        "{} is {}, which files of model_type {} can't say (they would mean {}); model_type plumbline "
        "can hold any model",
        here[i].first, here[i].second, f.type, there[i].second);
  }
  return "";
}

void check_class(const Family& f, const JsonFields& fields) {
  const auto classes = fields.texts("architectures");
  const auto asks_for = [&](std::string_view name) {
    return std::find(classes.begin(), classes.end(), name) != classes.end();
  };
  const std::vector<HeadClass> heads = head_classes(f.type);
  const bool known = std::any_of(heads.begin(), heads.end(), [&](const auto& h) { return asks_for(h.name); });
  if (classes.empty() || known || asks_for(f.architecture)) return;
  throw Error(ErrorKind::unsupported,
              fmt::format("{}: architectures names {}; of model_type {} plumb reads {}", fields.name(),
                          classes[0], f.type, f.architecture));
}

void refuse_quantized(const JsonFields& fields) {
  if (!fields.has("quantization_config")) return;
  const std::string method = fields.object("quantization_config").text("quant_method", "other numbers");
  throw Error(ErrorKind::unsupported,
              fmt::format("{}: quantization_config says that weights are stored as {}; plumb reads F32, F16 "
                          "and BF16: take the model in one of these",
                          fields.name(), method));
}

}  // namespace

std::span<const Family* const> families() {
  return kFamilies;
}

const Family& family(const std::string& model_type) {
  for (const Family* f : kFamilies) {
    if (f->type == model_type) return *f;
  }
  const std::vector<std::string> known = family_names();
  throw Error(ErrorKind::unsupported,
              fmt::format("model_type \"{}\" is not supported; plumb knows {}{}", model_type,
                          fmt::join(known, ", "), did_you_mean(model_type, known)));
}

FileName file_name(const ModelConfig& config, std::string_view parameter) {
  const Family& f = family(config.model_type);
  if (f.names.empty()) return {std::string(parameter), {}};
  // "decoder.12.feed_forward.experts.3.up" is looked up as "decoder.#.feed_forward.experts.*.up".
  std::string pattern;
  std::vector<std::string> numbers;
  for (const std::string_view part : split(parameter, '.')) {
    const bool number = part.find_first_not_of("0123456789") == part.npos;
    pattern += pattern.empty() ? "" : ".";
    pattern += !number ? part : numbers.empty() ? "#" : "*";
    if (number) numbers.emplace_back(part);
  }
  const size_t dot = pattern.rfind('.');
  const std::string module = pattern.substr(0, dot), leaf = pattern.substr(dot + 1);
  FileName found;
  const auto look = [&](std::span<const TensorName> names) {
    for (const TensorName& name : names) {
      if (name.plumb == pattern) {
        found = {std::string(name.file), name.layout};
        break;
      }
      if (name.plumb == module)
        found = {fmt::format("{}.{}", name.file, leaf == "gain" ? "weight" : leaf), name.layout};
    }
  };
  if (config.layer.parallel == Parallel::two_norms) look(f.two_norms);
  if (found.name.empty()) look(f.names);
  const HeadClass own = head_class(config);
  if (!own.name.empty() && module == "head") found = {fmt::format("{}.{}", own.module, leaf), {}};
  if (!own.prefix.empty() && found.name.starts_with(f.prefix))
    found.name.replace(0, f.prefix.size(), own.prefix);
  const char marks[] = {'#', '*'};
  for (size_t i = 0; i < numbers.size() && i < 2; ++i) {
    const size_t at = found.name.find(marks[i]);
    if (at != found.name.npos) found.name.replace(at, 1, numbers[i]);
  }
  return found;
}

ModelConfig read_config(const std::string& text, const std::string& name) try {
  const JsonFields fields(parse_json(text, name), name);
  if (!fields.has("model_type")) {
    throw Error(ErrorKind::config,
                name + " has no model_type, so it does not say which family the model is of");
  }
  const Family& f = family(fields.text("model_type", ""));
  if (&f == &kPlumbline) {
    ModelConfig config = config_from_json(text);
    validate(config);
    return config;
  }
  check_class(f, fields);
  refuse_quantized(fields);
  ModelConfig config = read_fields(f, fields);
  if (fields.has(kTrainingKey)) {
    set_fields(fields.raw(kTrainingKey), kTrainingKey, kTrainingFields, config);
  }
  validate(config);
  return config;
} catch (const Error& error) {
  const bool named = std::string_view(error.what()).starts_with(name);
  throw Error(error.kind(), named ? error.what() : fmt::format("{}: {}", name, error.what()));
}

std::string write_config(const ModelConfig& config, std::string_view dtype) {
  const Family& f = family(config.model_type);
  if (&f == &kPlumbline) return to_json(config);
  if (std::string why; !family_fits(config, &why)) throw Error(ErrorKind::config, why);
  OrderedJson j;
  j["architectures"] = nullptr;
  j["model_type"] = f.type;
  j["dtype"] = dtype;
  write_fields(f, config, j);
  const OrderedJson here = training_fields(config), there = training_fields(written_and_read(f, config));
  for (const auto& [key, value] : here.items()) {
    if (value != there.at(key)) j[kTrainingKey][key] = value;
  }
  return dump_json(j) + "\n";
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family* f : kFamilies) names.emplace_back(f->type);
  return names;
}

bool family_fits(const ModelConfig& config, std::string* why) {
  const Family& f = family(config.model_type);
  if (&f == &kPlumbline) return true;
  const std::string difference = first_difference(f, config);
  if (why) *why = difference;
  return difference.empty();
}

ModelConfig family_default(const std::string& model_type) {
  const Family& f = family(model_type);
  const ModelConfig plain;
  if (&f == &kPlumbline) return {};
  ModelConfig c = f.read(JsonFields(Json::object(), "config.json"));
  c.vocab_size = plain.vocab_size;
  c.width = plain.width;
  c.max_length = plain.max_length;
  if (c.encoder_layers > 0) c.encoder_layers = plain.decoder_layers;
  if (c.decoder_layers > 0) c.decoder_layers = plain.decoder_layers;
  c.decoder_runs.clear();
  c.layer.heads = plain.layer.heads;
  c.layer.kv_heads = plain.layer.kv_heads;
  if (c.layer.kv_rank == 0) c.layer.head_dim = plain.layer.head_dim;
  c.layer.ffn_width = plain.layer.ffn_width;
  c.layer.shared_width = plain.layer.shared_width;
  c.embedding_scale = written_and_read(f, c).embedding_scale;  // where it follows from the width
  c.dropout = c.attention_dropout = c.embedding_dropout = 0;
  c.bos_id = c.pad_id = c.decoder_start_id = -1;
  c.eos_ids.clear();
  return c;
}

Activation activation_named(const JsonFields& fields, const char* key, const char* absent) {
  constexpr std::pair<std::string_view, Activation> known[] = {{"relu", Activation::relu},
                                                               {"gelu", Activation::gelu},
                                                               {"gelu_new", Activation::gelu_tanh},
                                                               {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                                               {"gelu_fast", Activation::gelu_tanh},
                                                               {"silu", Activation::silu},
                                                               {"swish", Activation::silu},
                                                               {"relu2", Activation::relu_squared},
                                                               {"quick_gelu", Activation::gelu_sigmoid}};
  const std::string name = fields.text(key, absent);
  for (const auto& [text, activation] : known) {
    if (text == name) return activation;
  }
  throw Error(ErrorKind::unsupported,
              fmt::format("{}: {} \"{}\" is not supported; plumb has relu, gelu, gelu_new, "
                          "gelu_pytorch_tanh, gelu_fast, silu, swish, relu2 and quick_gelu",
                          fields.name(), key, name));
}

std::string_view activation_name(Activation activation) {
  switch (activation) {
    case Activation::relu:
      return "relu";
    case Activation::gelu:
      return "gelu";
    case Activation::gelu_tanh:
      return "gelu_pytorch_tanh";
    case Activation::silu:
      return "silu";
    case Activation::relu_squared:
      return "relu2";
    case Activation::gelu_sigmoid:
      return "quick_gelu";
  }
  return "?";
}

void refuse_unless(const JsonFields& fields, const char* key, const JsonValue& value) {
  const Json neutral = value.json();
  if (!fields.has(key) || fields.raw(key) == neutral) return;
  throw Error(ErrorKind::unsupported, fmt::format("{}: {} is {}, and plumb supports only {}", fields.name(),
                                                  key, fields.raw(key).dump(), neutral.dump()));
}

void warn_unless_zero(const JsonFields& fields, const char* key) {
  if (fields.number(key, 0) == 0) return;
  log_warning(fmt::format("{}: {} has no effect here: training goes without it", fields.name(), key));
}

void read_ids(const JsonFields& fields, ModelConfig& config) {
  config.bos_id = fields.id("bos_token_id", config.bos_id);
  config.eos_ids = fields.ids("eos_token_id", config.eos_ids);
  config.pad_id = fields.id("pad_token_id", config.pad_id);
}

void write_ids(const ModelConfig& config, JsonObject out) {
  const auto id = [&](const char* key, int64_t value) {
    out[key] = nullptr;
    if (value >= 0) out[key] = value;
  };
  id("bos_token_id", config.bos_id);
  id("eos_token_id", config.eos_ids.size() == 1 ? config.eos_ids[0] : -1);
  if (config.eos_ids.size() > 1) out["eos_token_id"] = config.eos_ids;
  id("pad_token_id", config.pad_id);
}

}  // namespace plumb
