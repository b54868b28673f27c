#include "model/generation_defaults.h"

#include <gtest/gtest.h>

#include "plumb/error.h"

namespace plumb {
namespace {

TEST(GenerationConfig, WrittenAndReadIsTheSame) {
  const GenerationDefaults d{.eos_ids = {2, 3},
                             .bos_id = 1,
                             .pad_id = 0,
                             .decoder_start_id = 4,
                             .forced_bos_id = 5,
                             .forced_eos_id = 2,
                             .bad_words = {{7}, {8, 9}},
                             .max_new_tokens = 50,
                             .do_sample = true,
                             .temperature = 0.7,
                             .top_p = 0.9,
                             .min_p = 0.05,
                             .repetition_penalty = 1.1,
                             .top_k = 40};
  EXPECT_EQ(generation_from_json(generation_to_json(d), "g", {}), d);
  const GenerationDefaults none;
  EXPECT_EQ(generation_from_json(generation_to_json(none), "g", none), none);
  // Absent keys come from the model; null ones say "none".
  EXPECT_EQ(generation_from_json("{}", "g", d).eos_ids, d.eos_ids);
  EXPECT_EQ(generation_from_json(R"({"eos_token_id":null,"pad_token_id":-1})", "g", d).eos_ids,
            std::vector<int64_t>{});
  EXPECT_EQ(generation_from_json(R"({"pad_token_id":-1})", "g", d).pad_id, -1);
  EXPECT_EQ(generation_from_json(R"({"eos_token_id":6})", "g", d).eos_ids, std::vector<int64_t>{6});
  for (const char* wrong :
       {R"({"bad_words_ids":[7]})", R"({"bad_words_ids":[[]]})", R"({"eos_token_id":[-1]})",
        R"({"pad_token_id":1.5})", R"({"do_sample":1})", R"({"temperature":"hot"})", "[]"}) {
    EXPECT_THROW(generation_from_json(wrong, "g", d), Error) << wrong;
  }
}

}  // namespace
}  // namespace plumb
