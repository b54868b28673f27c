#include "model/families.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/test_support.h"
#include "model/tensor_names.h"
#include "model/transformer.h"
#include "plumb/model.h"

namespace plumb {
namespace {

// A config.json of a family: small sizes, and what `more` says.
std::string config_text(const std::string& type, const std::string& more = "") {
  const std::map<std::string, std::string> sizes{
      {"gpt2",
       R"("vocab_size":9,"n_embd":8,"n_layer":2,"n_head":2,"n_positions":16,"bos_token_id":1,"eos_token_id":2)"},
      {"llama",
       R"("vocab_size":9,"hidden_size":8,"num_hidden_layers":2,"num_attention_heads":2,"intermediate_size":12)"},
      {"bert",
       R"("vocab_size":9,"hidden_size":8,"num_hidden_layers":2,"num_attention_heads":2,"intermediate_size":12)"},
      {"marian",
       R"("vocab_size":9,"d_model":8,"encoder_layers":2,"decoder_layers":1,"encoder_attention_heads":2,)"
       R"("decoder_attention_heads":2,"encoder_ffn_dim":12,"decoder_ffn_dim":12,"pad_token_id":8,)"
       R"("decoder_start_token_id":8)"}};
  return "{\"model_type\":\"" + type + "\"," + sizes.at(type) + (more.empty() ? "" : "," + more) + "}";
}
ModelConfig config(const std::string& type, const std::string& more = "") {
  return read_config(config_text(type, more), "config.json");
}

void expect_refused(const std::string& text, ErrorKind kind, const std::string& reason) {
  const std::string message = error_of(kind, [&] { read_config(text, "config.json"); });
  EXPECT_NE(message.find(reason), std::string::npos) << text << ": " << message;
  EXPECT_TRUE(message.starts_with("config.json")) << message;
}

TEST(FamilyConfig, B07_EpsilonOfTheFileOrOfTheFamily) {
  EXPECT_EQ(config("bert").layer.norm_eps, 1e-12);
  EXPECT_EQ(config("gpt2").layer.norm_eps, 1e-5);
  EXPECT_EQ(config("llama").layer.norm_eps, 1e-6);
  EXPECT_EQ(config("marian").layer.norm_eps, 1e-5);
  EXPECT_EQ(config("bert", R"("layer_norm_eps":1e-5)").layer.norm_eps, 1e-5);
  EXPECT_EQ(config("llama", R"("rms_norm_eps":1e-05)").layer.norm_eps, 1e-5);
  EXPECT_EQ(config("llama", R"("rms_norm_eps":null)").layer.norm_eps, 1e-6);
  expect_refused(config_text("llama", R"("rms_norm_eps":"1e-5")"), ErrorKind::config,
                 "rms_norm_eps is \"1e-5\", expected a number");
  expect_refused(config_text("llama", R"("rms_norm_eps":1)"), ErrorKind::config, "norm_eps is 1");
  expect_refused(config_text("llama", R"("rms_norm_eps":0)"), ErrorKind::config, "norm_eps is 0");
}

TEST(FamilyConfig, B47_DecoderStart) {
  EXPECT_EQ(config("marian").decoder_start_id, 8);
  // Absent: the family's own default, which a small vocabulary does not hold.
  const std::string text = R"({"model_type":"marian","vocab_size":9,"pad_token_id":8})";
  expect_refused(text, ErrorKind::config, "decoder_start_id is 58100, outside the vocabulary of 9");
  EXPECT_EQ(read_config(R"({"model_type":"marian"})", "config.json").decoder_start_id, 58100);
}

TEST(FamilyConfig, B49_HeadDim) {
  const std::string wide =
      R"("hidden_size":640,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":256)";
  const std::string text = R"({"model_type":"llama","vocab_size":9,"num_hidden_layers":1,)" + wide + "}";
  const Transformer model(read_config(text, "config.json"));
  EXPECT_EQ(model.parameters().find("decoder.0.attention.query.weight")->shape, Shape({1024, 640}));
  EXPECT_EQ(model.parameters().find("decoder.0.attention.key.weight")->shape, Shape({512, 640}));
  EXPECT_EQ(model.parameters().find("decoder.0.attention.output.weight")->shape, Shape({640, 1024}));
  EXPECT_EQ(resolved_layer(config("llama", R"("head_dim":null)"), Side::decoder, 0).head_dim, 4);
  EXPECT_EQ(resolved_layer(config("llama"), Side::decoder, 0).head_dim, 4);
  EXPECT_EQ(resolved_layer(config("llama", R"("num_key_value_heads":null)"), Side::decoder, 0).kv_heads, 2);
}

TEST(FamilyConfig, OldAndNewSpellingsOfRope) {
  const ModelConfig old =
      config("llama", R"("rope_theta":500.0,"rope_scaling":{"type":"linear","factor":2})");
  const ModelConfig today =
      config("llama", R"("rope_parameters":{"rope_theta":500.0,"rope_type":"linear","factor":2.0})");
  EXPECT_EQ(old.layer.rope.base, 500);
  EXPECT_EQ(old.layer.rope.factor, 2);
  EXPECT_EQ(old, today);
  EXPECT_EQ(config("llama").layer.rope.base, 10000);
  EXPECT_EQ(config("llama", R"("rope_scaling":null)").layer.rope.scaling, RopeScaling::none);
}

TEST(FamilyConfig, WhatIsNotSupportedIsRefusedByName) {
  const auto refused = [](const char* type, const std::string& more, const std::string& reason) {
    expect_refused(config_text(type, more), ErrorKind::unsupported, reason);
  };
  refused("llama", R"("rope_scaling":{"rope_type":"mrope","factor":2})", "rope_type \"mrope\"");
  refused("llama", R"("rope_parameters":{"rope_type":"proportional"})", "rope_type \"proportional\"");
  expect_refused(R"({"model_type":"gpt2","n_embd":9223372036854775807})", ErrorKind::config,
                 "of a size up to 2^31");
  refused("llama", R"("hidden_act":"mish")", "hidden_act \"mish\"");
  refused("llama", R"("architectures":["LlamaForVideoClassification"])", "LlamaForVideoClassification");
  expect_refused(R"({"model_type":"olmo","architectures":["OlmoForTokenClassification"]})",
                 ErrorKind::unsupported, "OlmoForTokenClassification");
  refused("llama", R"("quantization_config":{"bits":4})", "quantization_config");
  refused("gpt2", R"("add_cross_attention":true)", "add_cross_attention is true");
  refused("bert", R"("is_decoder":true)", "is_decoder is true");
  refused("bert", R"("position_embedding_type":"relative_key")", "position_embedding_type");
  refused("marian", R"("normalize_before":true)", "normalize_before is true");
  refused("marian", R"("normalize_embedding":true)", "normalize_embedding");
  refused("marian", R"("decoder_vocab_size":10)", "decoder_vocab_size is 10");
  expect_refused(R"({"model_type":"mamba"})", ErrorKind::unsupported, "model_type \"mamba\"");
  expect_refused(R"({"vocab_size":9})", ErrorKind::config, "no model_type");
  expect_refused(R"([1])", ErrorKind::config, "not a JSON object");
  expect_refused(R"({"model_type":)", ErrorKind::file, "not valid JSON");
  expect_refused(config_text("llama", R"("num_hidden_layers":2.5)"), ErrorKind::file, "given twice");
  expect_refused(R"({"model_type":"llama","num_hidden_layers":2.5})", ErrorKind::config,
                 "num_hidden_layers is 2.5");
  expect_refused(R"({"model_type":"llama","num_attention_heads":"8"})", ErrorKind::config,
                 "num_attention_heads");
  expect_refused(R"({"model_type":"llama","num_attention_heads":7})", ErrorKind::config, "multiple of heads");
}

TEST(FamilyConfig, HeadsOverClasses) {
  const std::string sequence = R"("architectures":["LlamaForSequenceClassification"])",
                    tokens = R"("architectures":["LlamaForTokenClassification"])";
  ModelConfig c = config("llama", sequence);
  EXPECT_EQ(c.head, Head::sequence_classification);
  EXPECT_EQ(c.labels, (std::vector<std::string>{"LABEL_0", "LABEL_1"}));
  EXPECT_FALSE(c.head_bias);
  EXPECT_EQ(config("llama", sequence + R"(,"num_labels":1)").labels.size(), 1);
  c = config("llama", sequence + R"(,"num_labels":7,"id2label":{"1":"b","0":"a","2":"c"})");
  EXPECT_EQ(c.labels, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(config("llama", sequence + R"(,"problem_type":"regression")").problem, Problem::regression);
  c = config("llama", tokens);
  EXPECT_TRUE(c.head_bias);
  EXPECT_EQ(c.head_dropout, 0.1);
  EXPECT_EQ(config("llama", tokens + R"(,"hidden_dropout":0.3)").head_dropout, 0.3);
  EXPECT_EQ(config("llama", tokens + R"(,"classifier_dropout":0.2,"hidden_dropout":0.3)").head_dropout, 0.2);
  EXPECT_FALSE(config("llama", tokens + R"(,"token_classification_bias":false)").head_bias);
  EXPECT_EQ(config("llama", R"("id2label":{"0":"a"})").labels.size(), 0) << "a language model has none";
  const auto wrong = [&](const std::string& more, const std::string& reason) {
    expect_refused(config_text("llama", sequence + "," + more), ErrorKind::config, reason);
  };
  wrong(R"("id2label":{"0":"a","2":"b"})", "id2label");
  wrong(R"("id2label":{"0":"a","00":"b"})", "id2label");
  wrong(R"("id2label":{"0":1})", "id2label");
  wrong(R"("id2label":{})", "there are no labels");
  wrong(R"("num_labels":0)", "num_labels is 0");
  wrong(R"("num_labels":99999999)", "num_labels is 99999999");
  wrong(R"("problem_type":"ranking")", "problem_type is \"ranking\"");
  wrong(R"("problem_type":"single_label_classification","num_labels":1)", "there is one label");
  for (const std::string& more :
       {sequence, tokens, sequence + R"(,"problem_type":"regression","num_labels":1)",
        tokens + R"(,"classifier_dropout":0.2,"token_classification_bias":false)",
        std::string(R"("architectures":["LlamaForQuestionAnswering"])")}) {
    const std::string text = write_config(config("llama", more), "float32");
    EXPECT_EQ(write_config(read_config(text, "config.json"), "float32"), text) << more;
  }
}

TEST(FamilyConfig, Gpt2AttentionScales) {
  EXPECT_EQ(config("gpt2", R"("scale_attn_weights":false)").layer.attention_scale, 1);
  const ModelConfig c = config("gpt2", R"("scale_attn_by_inverse_layer_idx":true)");
  EXPECT_EQ(resolved_layer(c, Side::decoder, 0).attention_scale, 0.5);
  EXPECT_EQ(resolved_layer(c, Side::decoder, 1).attention_scale, 0.25);
  EXPECT_TRUE(family_fits(c));
}

TEST(FamilyConfig, WrittenAndReadIsTheSame) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"gpt2", ""},
      {"gpt2", R"("tie_word_embeddings":false,"n_inner":20,"activation_function":"relu","pad_token_id":0)"},
      {"gpt2", R"("scale_attn_by_inverse_layer_idx":true)"},
      {"gpt2", R"("scale_attn_weights":false,"eos_token_id_":1)"},
      {"llama",
       R"("num_key_value_heads":1,"attention_bias":true,"mlp_bias":true,"tie_word_embeddings":true)"},
      {"llama", R"("head_dim":6,"pad_token_id":0,"eos_token_id":[1,2],"hidden_act":"gelu")"},
      {"llama", R"("rope_scaling":{"type":"linear","factor":2.5},"rope_theta":77.0,"bos_token_id":null)"},
      {"bert", ""},
      {"bert",
       R"("tie_word_embeddings":false,"type_vocab_size":3,"pad_token_id":null,"hidden_act":"gelu_new")"},
      {"marian", R"("scale_embedding":true,"activation_function":"swish")"},
      {"marian", R"("share_encoder_decoder_embeddings":false,"tie_word_embeddings":false,"eos_token_id":0)"},
  };
  for (const auto& [type, more] : cases) {
    const ModelConfig c = config(type, more);
    std::string why;
    EXPECT_TRUE(family_fits(c, &why)) << type << " " << more << ": " << why;
    const std::string text = write_config(c, "float32");
    const ModelConfig again = read_config(text, "config.json");
    EXPECT_EQ(write_config(again, "float32"), text) << more;
    EXPECT_EQ(again.eos_ids, c.eos_ids);
    EXPECT_EQ(again.bos_id, c.bos_id);
    EXPECT_EQ(again.pad_id, c.pad_id);
  }
  // Another number of heads on each side.
  const std::string text =
      R"({"model_type":"marian","vocab_size":9,"d_model":8,"encoder_layers":1,"decoder_layers":2,"pad_token_id":8,)"
      R"("encoder_attention_heads":4,"decoder_attention_heads":2,"encoder_ffn_dim":12,"decoder_ffn_dim":20,)"
      R"("decoder_start_token_id":8})";
  const ModelConfig uneven = read_config(text, "config.json");
  EXPECT_EQ(resolved_layer(uneven, Side::encoder, 0).heads, 4);
  EXPECT_EQ(resolved_layer(uneven, Side::decoder, 1).heads, 2);
  EXPECT_EQ(resolved_layer(uneven, Side::decoder, 1).ffn_width, 20);
  EXPECT_EQ(write_config(read_config(write_config(uneven, ""), "c"), ""), write_config(uneven, ""));
}

TEST(FamilyConfig, TrainingFieldsHaveAPlaceOfTheirOwn) {
  ModelConfig c = config("llama");
  c.dropout = 0.25;
  c.mask_id = 3;
  c.init = Init::xavier;
  const std::string text = write_config(c, "float32");
  const Json j = Json::parse(text);
  EXPECT_EQ(j.at("plumb_training").at("dropout"), 0.25);
  EXPECT_FALSE(j.at("plumb_training").contains("attention_dropout"));
  const ModelConfig again = read_config(text, "config.json");
  EXPECT_EQ(again.dropout, 0.25);
  EXPECT_EQ(again.mask_id, 3);
  EXPECT_EQ(again.init, Init::xavier);
  expect_refused(config_text("llama", R"("plumb_training":{"heads":3})"), ErrorKind::config,
                 "unknown key \"heads\"");
}

TEST(FamilyFits, NamesTheFieldThatAFileCannotSay) {
  const auto why_not = [](const ModelConfig& c) {
    std::string why;
    EXPECT_FALSE(family_fits(c, &why));
    EXPECT_THROW(write_config(c, "float32"), Error);
    return why;
  };
  ModelConfig c = config("gpt2");
  c.layer.norm = NormKind::rms_norm;
  EXPECT_TRUE(why_not(c).starts_with("norm of decoder layer 0 is \"rms-norm\"")) << why_not(c);
  c = config("gpt2");
  c.layer.placement = Placement::deep_norm;
  EXPECT_NE(why_not(c).find("decoder layer 0"), std::string::npos);
  c = config("llama");
  c.decoder_runs = {{.first = 1, .count = 1, .layer = c.layer}};
  EXPECT_TRUE(family_fits(c)) << "a run that changes nothing";
  c.decoder_runs[0].layer.window = 3;
  EXPECT_TRUE(why_not(c).starts_with("window of decoder layer 1 is 3")) << why_not(c);
  c = config("llama");
  c.positions = Positions::alibi;
  EXPECT_TRUE(why_not(c).starts_with("positions is \"alibi\"")) << why_not(c);
  c = config("bert");
  c.decoder_layers = 1;
  EXPECT_TRUE(why_not(c).starts_with("decoder_layers is 1")) << why_not(c);
  c = config("marian");
  c.embedding_scale = 3;
  EXPECT_TRUE(why_not(c).starts_with("embedding_scale is 3")) << why_not(c);
  c = config("llama");
  c.final_norm = false;
  EXPECT_TRUE(why_not(c).starts_with("final_norm is false")) << why_not(c);
}

TEST(FamilyDefault, EveryFamilyFitsItself) {
  for (const std::string& type : family_names()) {
    ModelConfig c = family_default(type);
    EXPECT_EQ(c.model_type, type);
    c.vocab_size = 11;
    std::string why;
    EXPECT_TRUE(family_fits(c, &why)) << type << ": " << why;
    const Transformer model(c);
    const TensorNames names(c, model.parameters());
    std::set<std::string> files;
    for (const FileTensor& t : names.all()) {
      EXPECT_EQ(names.tensor(t.name), &t);
      EXPECT_TRUE(files.insert(t.name).second) << t.name << " names two parameters";
    }
  }
  EXPECT_THROW(family_default("mamba"), Error);
  EXPECT_EQ(family_default("plumbline"), ModelConfig{});
  EXPECT_EQ(family_default("gpt2").dropout, 0);
}

// The parameter that a tensor of a file is; null where it is none.
const Parameter* parameter(const TensorNames& names, const char* tensor) {
  const FileTensor* t = names.tensor(tensor);
  return t ? t->parts[0] : nullptr;
}

// Every tensor of a family, also untied and in every layer, has a name of its own.
TEST(TensorNamesOf, PrefixesAndOldNorms) {
  const Transformer model(config("bert"));
  const TensorNames names(model.config(), model.parameters());
  const ParameterTable& table = model.parameters();
  const Parameter* gain = table.find("encoder.1.attention.norm_out.gain");
  ASSERT_NE(gain, nullptr);
  EXPECT_EQ(parameter(names, "bert.encoder.layer.1.attention.output.LayerNorm.weight"), gain);
  EXPECT_EQ(parameter(names, "encoder.layer.1.attention.output.LayerNorm.weight"), gain);
  EXPECT_EQ(parameter(names, "bert.encoder.layer.1.attention.output.LayerNorm.gamma"), gain);
  EXPECT_EQ(parameter(names, "encoder.layer.1.attention.output.LayerNorm.beta"),
            table.find("encoder.1.attention.norm_out.bias"));
  EXPECT_EQ(parameter(names, "bert.bert.encoder.layer.1.attention.output.LayerNorm.weight"), nullptr);
  EXPECT_EQ(parameter(names, "encoder.layer.2.attention.output.LayerNorm.weight"), nullptr);
  EXPECT_EQ(names.copy_of("cls.predictions.decoder.weight"), table.find("token_embedding.weight"));
  EXPECT_EQ(names.copy_of("cls.predictions.decoder.bias"), table.find("head.bias"));
  EXPECT_TRUE(names.ignored("bert.pooler.dense.weight"));
  EXPECT_FALSE(names.ignored("bert.pooler.dense.scale"));
}

TEST(TensorNamesOf, B17_GammaAndBetaElsewhereStayWhatTheyAre) {
  const Transformer model(config("bert"));
  const TensorNames names(model.config(), model.parameters());
  for (const char* other :
       {"block.gamma", "bert.encoder.layer.0.gamma", "encoder.layer.0.output.dense.gamma",
        "encoder.layer.0.output.dense.beta", "encoder.layer.0.output.LayerNorm.gamma.weight"}) {
    EXPECT_EQ(parameter(names, other), nullptr) << other;
    EXPECT_FALSE(names.ignored(other)) << other;
  }
}

TEST(TensorNamesOf, UntiedHeadsAreNoCopies) {
  const Transformer model(config("gpt2", R"("tie_word_embeddings":false)"));
  const TensorNames names(model.config(), model.parameters());
  EXPECT_EQ(parameter(names, "lm_head.weight"), model.parameters().find("head.weight"));
  EXPECT_TRUE(names.ignored("transformer.h.1.attn.bias"));
  EXPECT_TRUE(names.ignored("h.11.attn.masked_bias"));
  EXPECT_FALSE(names.ignored("h.1.attn.c_attn.bias"));
}

}  // namespace
}  // namespace plumb
