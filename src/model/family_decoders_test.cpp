// What the config.json files of older decoders say: defaults, other spellings, and what is refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/test_support.h"
#include "model/families.h"
#include "model/tensor_names.h"
#include "model/transformer.h"
#include "plumb/config_fields.h"
#include "plumb/model.h"

namespace plumb {
namespace {

constexpr const char* kSizes =
    R"("vocab_size":9,"hidden_size":16,"num_hidden_layers":2,"num_attention_heads":2,"bos_token_id":1,)"
    R"("eos_token_id":2)";

std::string text_of(const std::string& type, const std::string& more, const std::string& sizes = kSizes) {
  return "{\"model_type\":\"" + type + "\"," + sizes + (more.empty() ? "" : "," + more) + "}";
}

ModelConfig config(const std::string& type, const std::string& more = "", const std::string& sizes = kSizes) {
  return read_config(text_of(type, more, sizes), "config.json");
}

std::string refusal(ErrorKind kind, const std::string& type, const std::string& more) {
  return error_of(kind, [&] { config(type, more); });
}

TEST(DecoderConfig, SizesGoByEitherName) {
  EXPECT_EQ(config("gptj", R"("rotary_dim":4)"),
            config("gptj", R"("rotary_dim":4)",
                   R"("vocab_size":9,"n_embd":16,"n_layer":2,"n_head":2,"bos_token_id":1,"eos_token_id":2)"));
  EXPECT_EQ(config("gpt_bigcode"), config("gpt_bigcode", R"("n_head":5,"n_embd":3)"));
  EXPECT_EQ(config("mpt", R"("max_seq_len":77)").max_length, 77);
  EXPECT_EQ(config("bloom", R"("n_embed":32)").width, 32);
  EXPECT_EQ(config("falcon", R"("n_embed":32)").width, 32);
}

TEST(DecoderConfig, PartsOfAHeadThatAreRotated) {
  const std::string wide =
      R"("vocab_size":9,"hidden_size":64,"num_hidden_layers":2,"num_attention_heads":2,"bos_token_id":1,)"
      R"("eos_token_id":2)";
  const auto fraction = [&](const char* type, const char* more) {
    return config(type, more, wide).layer.rope.fraction;
  };
  EXPECT_EQ(fraction("gpt_neox", ""), 0.25);
  EXPECT_EQ(fraction("gpt_neox", R"("rotary_pct":0.5)"), 0.5);
  EXPECT_EQ(fraction("gpt_neox", R"("rope_parameters":{"partial_rotary_factor":1.0})"), 1);
  EXPECT_EQ(fraction("gpt_neox", R"("rotary_pct":0.5,"rope_scaling":{"type":"linear","factor":2})"), 0.5);
  EXPECT_EQ(fraction("gpt_neox", R"("rope_parameters":{"partial_rotary_factor":0.5,"rope_type":"linear"})"),
            0.5);
  EXPECT_EQ(fraction("phi", ""), 0.5);
  EXPECT_EQ(fraction("stablelm", R"("num_key_value_heads":2)"), 0.25);
  EXPECT_EQ(fraction("persimmon", R"("partial_rotary_factor":0.25)"), 0.25);
  EXPECT_EQ(fraction("nemotron", ""), 0.5);
  EXPECT_EQ(fraction("starcoder2", R"("partial_rotary_factor":0.25)"), 1)
      << "which the reference never reads";
  EXPECT_EQ(config("gpt_neox", R"("rotary_emb_base":500,"rope_theta":7)", wide).layer.rope.base, 500);
  EXPECT_EQ(config("gptj", R"("rotary_dim":8)", wide).layer.rope.fraction, 0.25);
  EXPECT_NE(refusal(ErrorKind::config, "gptj", R"("rotary_dim":64)").find("rotary_dim is 64"),
            std::string::npos);
}

// What the reference's classes read beside their own fields, and what they never read.
TEST(DecoderConfig, KeysThatNoClassDeclares) {
  for (const char* type : {"cohere2", "olmo2", "qwen2", "phi3"}) {
    const ModelConfig c = config(type, R"("head_dim":6,"num_key_value_heads":2,"pad_token_id":0)");
    EXPECT_EQ(resolved_layer(c, Side::decoder, 0).head_dim, 6) << type;
  }
  EXPECT_EQ(config("llama", R"("partial_rotary_factor":0.5)").layer.rope.fraction, 1);
  EXPECT_EQ(config("ministral3", R"("rope_theta":5.0,"num_key_value_heads":1)").layer.rope.base, 1e6)
      << "which its default object has";
  EXPECT_NE(refusal(ErrorKind::unsupported, "llama",
                    R"("partial_rotary_factor":0.5,"rope_scaling":{"type":"linear","factor":2})")
                .find("partial_rotary_factor"),
            std::string::npos);
}

// The reference's class makes the mask of a window whether a layer has one or not.
TEST(DecoderConfig, AWindowThatNoLayerHasIsStillWritten) {
  for (const char* type : {"gemma2", "gemma3_text", "cohere2", "ministral"}) {
    const ModelConfig c = config(
        type,
        R"("num_key_value_heads":2,"pad_token_id":0,"layer_types":["full_attention","full_attention"])");
    EXPECT_NE(write_config(c, "float32").find("\"sliding_window\": 4096"), std::string::npos) << type;
  }
}

TEST(DecoderConfig, WindowsOfGptNeoByLayer) {
  const auto windows = [](const ModelConfig& c) {
    std::vector<int64_t> list;
    for (int64_t i = 0; i < c.decoder_layers; ++i) list.push_back(layer_config(c, Side::decoder, i).window);
    return list;
  };
  using Windows = std::vector<int64_t>;
  EXPECT_EQ(windows(config("gpt_neo", R"("attention_types":[[["local","global"],1]],"window_size":3)")),
            Windows({3, 0}));
  EXPECT_EQ(windows(config("gpt_neo", R"("attention_types":[[["local"],2]])")), Windows({256, 256}));
  EXPECT_EQ(windows(config("gpt_neo",
                           R"("attention_types":[[["local"],2]],"attention_layers":["global","global"])")),
            Windows({0, 0}));
  EXPECT_NE(refusal(ErrorKind::config, "gpt_neo", R"("attention_types":[[["local"],3]])").find("3 layers"),
            std::string::npos);
  EXPECT_NE(
      refusal(ErrorKind::config, "gpt_neo", R"("attention_types":[["local",2]])").find("attention_types"),
      std::string::npos);
  EXPECT_NE(
      refusal(ErrorKind::unsupported, "gpt_neo", R"("attention_types":[[["sparse"],2]])").find("sparse"),
      std::string::npos);
}

TEST(DecoderConfig, WiringsOfFalcon) {
  const auto wiring = [](const char* more) {
    const ModelConfig c = config("falcon", more);
    return std::pair(enum_name(c.layer.parallel), resolved_layer(c, Side::decoder, 0).kv_heads);
  };
  using Wiring = std::pair<std::string, int64_t>;
  EXPECT_EQ(wiring(""), Wiring("one-norm", 1));
  EXPECT_EQ(wiring(R"("num_kv_heads":2)"), Wiring("one-norm", 1));
  EXPECT_EQ(wiring(R"("multi_query":false)"), Wiring("one-norm", 2));
  EXPECT_EQ(wiring(R"("parallel_attn":false,"multi_query":false)"), Wiring("no", 2));
  EXPECT_EQ(wiring(R"("new_decoder_architecture":true,"num_kv_heads":1)"), Wiring("two-norms", 1));
  EXPECT_EQ(wiring(R"("new_decoder_architecture":true,"num_ln_in_parallel_attn":1)"), Wiring("one-norm", 2));
  EXPECT_NE(
      refusal(ErrorKind::unsupported, "falcon", R"("new_decoder_architecture":true,"parallel_attn":false)")
          .find("parallel_attn false"),
      std::string::npos);
}

TEST(DecoderConfig, NormsOfFalconHaveTheNamesOfTheirWiring) {
  const Transformer two(config("falcon", R"("new_decoder_architecture":true)"));
  const TensorNames names(two.config(), two.parameters());
  EXPECT_NE(names.tensor("transformer.h.1.ln_attn.weight"), nullptr);
  EXPECT_NE(names.tensor("transformer.h.1.ln_mlp.bias"), nullptr);
  EXPECT_EQ(names.tensor("transformer.h.1.input_layernorm.weight"), nullptr);
  EXPECT_EQ(
      file_name(config("falcon", R"("parallel_attn":false)"), "decoder.1.feed_forward.norm_in.gain").name,
      "transformer.h.1.post_attention_layernorm.weight");
}

TEST(DecoderConfig, KindsOfOpt) {
  const ModelConfig plain = config("opt");
  EXPECT_EQ(plain.embedding_width, 0);
  EXPECT_EQ(plain.position_offset, 2);
  EXPECT_TRUE(has_final_norm(plain, Side::decoder));
  EXPECT_FALSE(has_final_norm(config("opt", R"("_remove_final_layer_norm":true)"), Side::decoder));
  const ModelConfig narrow = config("opt", R"("word_embed_proj_dim":8,"do_layer_norm_before":false)");
  EXPECT_EQ(narrow.embedding_width, 8);
  EXPECT_FALSE(has_final_norm(narrow, Side::decoder));
  EXPECT_TRUE(family_fits(narrow));
  EXPECT_FALSE(config("opt", R"("enable_bias":false)").layer.ffn_bias);
}

// The name of the kind has been three ones; the length of the training stands beside the object.
TEST(DecoderConfig, LongRopeOfPhi3) {
  const auto of = [](const std::string& type, const std::string& more) {
    return config(
        "phi3", R"("max_position_embeddings":64,"rope_theta":50.0,"pad_token_id":0,"rope_scaling":{)" + type +
                    R"(,"short_factor":[1,1,2,2],"long_factor":[1,2,3,4]})" + more);
  };
  const ModelConfig c = of(R"("type":"longrope")", R"(,"original_max_position_embeddings":16)");
  EXPECT_EQ(of(R"("type":"su")", R"(,"original_max_position_embeddings":16)"), c);
  EXPECT_EQ(of(R"("rope_type":"yarn")", R"(,"original_max_position_embeddings":16)"), c);
  EXPECT_EQ(c.layer.rope.scaling, RopeScaling::longrope);
  EXPECT_EQ(c.layer.rope.factor, 4);
  EXPECT_EQ(c.layer.rope.base, 50);
  EXPECT_EQ(c.layer.rope.long_factors, std::vector<double>({1, 2, 3, 4}));
  EXPECT_TRUE(family_fits(c));
  // What the object repeats is not read.
  const ModelConfig silent = of(R"("type":"longrope","original_max_position_embeddings":16)", "");
  EXPECT_EQ(silent.layer.rope.original_length, 4096);
  EXPECT_EQ(silent.layer.rope.factor, 64.0 / 4096);
  EXPECT_EQ(of(R"("type":"longrope","factor":3,"attention_factor":1.5)", "").layer.rope.attention_factor,
            1.5);
  EXPECT_NE(refusal(ErrorKind::unsupported, "phi3",
                    R"("pad_token_id":0,"rope_scaling":{"type":"linear","factor":2})")
                .find("rope_type"),
            std::string::npos);
}

TEST(DecoderConfig, DefaultsOfGlm) {
  const auto part = [](const char* more) {
    return config("glm4", std::string(R"("pad_token_id":0)") + more).layer.rope.fraction;
  };
  EXPECT_EQ(part(""), 0.5);
  EXPECT_EQ(part(R"(,"partial_rotary_factor":0.25)"), 0.25);
  EXPECT_EQ(part(R"(,"rope_parameters":{"partial_rotary_factor":1})"), 1);
  const ModelConfig c = config("glm", "", R"("num_hidden_layers":1)");
  EXPECT_EQ(c.eos_ids, std::vector<int64_t>({151329, 151336, 151338}));
  EXPECT_EQ(c.pad_id, 151329);
  EXPECT_EQ(c.layer.head_dim, 128);
  EXPECT_TRUE(c.layer.attention_bias && !c.layer.attention_output_bias);
}

TEST(DecoderConfig, WhatIsNotSupportedIsRefusedByName) {
  EXPECT_NE(refusal(ErrorKind::unsupported, "bloom", R"("apply_residual_connection_post_layernorm":true)")
                .find("apply_residual_connection_post_layernorm"),
            std::string::npos);
  EXPECT_NE(refusal(ErrorKind::unsupported, "gpt_bigcode", R"("add_cross_attention":true)")
                .find("add_cross_attention"),
            std::string::npos);
}

}  // namespace
}  // namespace plumb
