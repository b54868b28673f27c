// What the config.json files of families with experts say.
#include <gtest/gtest.h>

#include "base/test_support.h"
#include "model/families.h"
#include "plumb/model.h"

namespace plumb {
namespace {

ModelConfig config(const std::string& type, const std::string& more = "") {
  const std::string sizes =
      R"("vocab_size":9,"hidden_size":8,"num_hidden_layers":3,"num_attention_heads":2,"intermediate_size":12,)"
      R"("num_key_value_heads":2,"bos_token_id":1,"eos_token_id":2,"pad_token_id":null,)"
      R"("moe_intermediate_size":6,"kv_lora_rank":4,"qk_rope_head_dim":2,"qk_nope_head_dim":3,"v_head_dim":5)";
  return read_config("{\"model_type\":\"" + type + "\"," + sizes + (more.empty() ? "" : "," + more) + "}",
                     "config.json");
}

void refused(const std::string& type, const std::string& more, const std::string& reason,
             ErrorKind kind = ErrorKind::unsupported) {
  const std::string message = error_of(kind, [&] { config(type, more); });
  EXPECT_NE(message.find(reason), std::string::npos) << more << ": " << message;
}

TEST(ExpertFamilies, WrittenAndReadIsTheSame) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"mixtral", ""},
      {"mixtral", R"("sliding_window":4,"num_local_experts":5,"output_router_logits":true,"head_dim":6)"},
      {"qwen2_moe", R"("num_experts":6)"},
      {"qwen2_moe", R"("num_experts":6,"decoder_sparse_step":2,"use_sliding_window":true,"sliding_window":3,)"
                    R"("max_window_layers":2,"qkv_bias":false,"shared_expert_intermediate_size":7)"},
      {"qwen2_moe", R"("num_experts":6,"mlp_only_layers":[0,1,2])"},
      {"qwen3_moe", R"("num_experts":9,"mlp_only_layers":[1],"attention_bias":true,"norm_topk_prob":true)"},
      {"qwen3_moe", R"("num_local_experts":9,"use_sliding_window":true,"sliding_window":4)"},
      {"olmoe", R"("num_experts":9,"norm_topk_prob":true,"attention_bias":true)"},
      {"granitemoe", ""},
      {"granitemoe",
       R"("attention_multiplier":0.3,"residual_multiplier":0.7,"embedding_multiplier":3,)"
       R"("logits_scaling":7,"attention_bias":true,"num_local_experts":5,"num_experts_per_tok":3)"},
      {"gpt_oss", ""},
      {"gpt_oss",
       R"("num_local_experts":6,"swiglu_limit":0.5,"sliding_window":5,"attention_bias":false,)"
       R"("layer_types":["full_attention","full_attention","sliding_attention"],"rope_theta":7.0)"},
      {"gpt_oss",
       R"("layer_types":["full_attention","full_attention","full_attention"],"sliding_window":null)"},
      {"deepseek_v2", R"("q_lora_rank":null,"n_routed_experts":8,"attention_bias":true)"},
      {"deepseek_v2",
       R"("n_routed_experts":8,"topk_method":"group_limited_greedy","n_group":4,"topk_group":3,)"
       R"("first_k_dense_replace":2,"routed_scaling_factor":2.5)"},
      {"deepseek_v3", R"("n_routed_experts":16,"n_shared_experts":2,"first_k_dense_replace":1)"},
      {"deepseek_v3", R"("n_routed_experts":16,"rope_interleave":false,"norm_topk_prob":false)"},
  };
  for (const auto& [type, more] : cases) {
    const ModelConfig c = config(type, more);
    std::string why;
    EXPECT_TRUE(family_fits(c, &why)) << type << " " << more << ": " << why;
    const std::string text = write_config(c, "float32");
    EXPECT_EQ(write_config(read_config(text, "config.json"), "float32"), text) << type << " " << more;
  }
}

TEST(ExpertFamilies, WhichLayersHaveExperts) {
  const auto sparse = [](const ModelConfig& c) {
    std::string layers;
    for (int64_t i = 0; i < c.decoder_layers; ++i)
      layers += layer_config(c, Side::decoder, i).experts > 0 ? 'x' : '.';
    return layers;
  };
  EXPECT_EQ(sparse(config("mixtral")), "xxx");
  EXPECT_EQ(sparse(config("qwen2_moe")), "xxx");
  EXPECT_EQ(sparse(config("qwen2_moe", R"("decoder_sparse_step":2)")), ".x.");
  EXPECT_EQ(sparse(config("qwen3_moe", R"("mlp_only_layers":[0,2])")), ".x.");
  EXPECT_EQ(sparse(config("qwen2_moe", R"("num_experts":0)")), "...");
  EXPECT_EQ(sparse(config("deepseek_v2")), "xxx");
  EXPECT_EQ(sparse(config("deepseek_v2", R"("first_k_dense_replace":1)")), ".xx");
  EXPECT_EQ(sparse(config("deepseek_v3")), "...");  // three dense layers, if it does not say
  const ModelConfig c = config("qwen2_moe", R"("mlp_only_layers":[1])");
  EXPECT_EQ(resolved_layer(c, Side::decoder, 0).ffn_width, 6);
  EXPECT_EQ(resolved_layer(c, Side::decoder, 1).ffn_width, 12);
  EXPECT_EQ(resolved_layer(c, Side::decoder, 1).shared_experts, 0);
}

TEST(ExpertFamilies, TheBalanceCountsWhereRouterLogitsAreAskedFor) {
  EXPECT_EQ(config("mixtral", R"("router_aux_loss_coef":0.5)").router_aux, 0);
  EXPECT_EQ(config("mixtral", R"("router_aux_loss_coef":0.5,"output_router_logits":true)").router_aux, 0.5);
  EXPECT_EQ(config("mixtral", R"("output_router_logits":true)").router_aux, 0.001);
  EXPECT_EQ(config("olmoe", R"("output_router_logits":true)").router_aux, 0.01);
  EXPECT_EQ(config("deepseek_v3", R"("output_router_logits":true)").router_aux, 0);
  EXPECT_TRUE(config("olmoe").router_aux_joint);
}

TEST(ExpertFamilies, AbsentIsNotNull) {
  EXPECT_EQ(config("deepseek_v2").layer.q_rank, 1536);
  EXPECT_EQ(config("deepseek_v2", R"("q_lora_rank":null)").layer.q_rank, 0);
  EXPECT_EQ(config("mixtral").layer.rope.base, 1e6);
  EXPECT_EQ(config("mixtral", R"("rope_theta":500.0)").layer.rope.base, 500);
}

TEST(ExpertFamilies, GptOssTurnsByYarnUnlessTold) {
  const RopeConfig usual = config("gpt_oss").layer.rope;
  EXPECT_EQ(usual.scaling, RopeScaling::yarn);
  EXPECT_EQ(usual.base, 150000);
  EXPECT_EQ(usual.factor, 32);
  EXPECT_EQ(usual.original_length, 4096);
  EXPECT_FALSE(usual.truncate);
  RopeConfig other = usual;
  other.base = 500;
  EXPECT_EQ(config("gpt_oss", R"("rope_theta":500.0)").layer.rope, other);
  const RopeConfig plain = config("gpt_oss", R"("rope_parameters":{"rope_type":"default"})").layer.rope;
  EXPECT_EQ(plain.scaling, RopeScaling::none);
  EXPECT_EQ(plain.base, 150000);
  const ModelConfig c = config("gpt_oss");
  EXPECT_EQ(layer_config(c, Side::decoder, 0).window, 128);
  EXPECT_EQ(layer_config(c, Side::decoder, 1).window, 0);
}

TEST(ExpertFamilies, WhatIsNotSupportedIsNamed) {
  refused("gpt_oss", R"("swiglu_alpha":1.5)", "swiglu_alpha is 1.5");
  refused("gpt_oss", R"("quantization_config":{"quant_method":"mxfp4"})", "weights are stored as mxfp4");
  refused("gpt_oss", R"("swiglu_limit":-1)", "ffn_limit is -1", ErrorKind::config);
  refused("deepseek_v2", R"("topk_method":"noaux_tc")", "topk_method \"noaux_tc\"");
  refused("deepseek_v2", R"("mlp_bias":true)", "mlp_bias");
  refused("qwen2_moe", R"("layer_types":["sliding_attention","full_attention","full_attention"])",
          "use_sliding_window is false");
  refused("qwen2_moe", R"("decoder_sparse_step":0)", "decoder_sparse_step is 0", ErrorKind::config);
  refused("deepseek_v3", R"("first_k_dense_replace":0,"n_routed_experts":10)", "router_groups is 8",
          ErrorKind::config);
  refused("mixtral", R"("num_experts_per_tok":9)", "experts_per_token is 9", ErrorKind::config);
}

}  // namespace
}  // namespace plumb
