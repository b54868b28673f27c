// Configs that would be passed over in silence, or leave what f32 can hold, are refused by the field's name.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <type_traits>

#include "base/test_support.h"
#include "model/small_model.h"
#include "plumb/config_fields.h"

namespace plumb::test {
namespace {

void refused(const std::vector<std::string>& words, const std::function<void(ModelConfig&)>& change) {
  ModelConfig c = small("plumbline");
  change(c);
  const std::string message = error_of(ErrorKind::config, [&] { validate(c); });
  for (const std::string& word : words)
    EXPECT_NE(message.find(word), std::string::npos) << word << "\n" << message;
}

TEST(Validate, NormsThatNothingWouldReadAreRefused) {
  EXPECT_NO_THROW(validate(small("plumbline")));
  for (const char* name : {"norm_in", "norm_inner", "norm_branch", "norm_out"}) {
    refused({name, "norm is none"}, [&](ModelConfig& c) {
      c.layer.norm = NormKind::none;
      visit_layer(c.layer, [&](const char* field, auto& value, const char*) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::optional<bool>>) {
          if (std::string(field) == name) value = true;
        }
      });
    });
  }
  refused({"qk_norm", "norm is none"}, [](ModelConfig& c) {
    c.layer.norm = NormKind::none;
    c.layer.qk_norm = QkNorm::per_head;
  });
}

// A gain that starts at 0 for 1 + w would be read as 0 by these.
TEST(Validate, AGainStoredAsAnOffsetIsForNormsThatAddTheOne) {
  for (const NormKind norm :
       {NormKind::none, NormKind::batch_norm, NormKind::scale_norm, NormKind::dyt, NormKind::shift}) {
    refused({"norm_unit_offset", "the norm is " + enum_name(norm)}, [&](ModelConfig& c) {
      c.layer.norm = norm;
      c.layer.norm_unit_offset = true;
    });
  }
  refused({"norm_unit_offset", "without gains"}, [](ModelConfig& c) {
    c.layer.norm_unit_offset = true;
    c.layer.norm_affine = false;
  });
  for (const NormKind norm : {NormKind::layer_norm, NormKind::rms_norm}) {
    ModelConfig c = small("plumbline");
    c.layer.norm = norm;
    c.layer.norm_unit_offset = true;
    EXPECT_NO_THROW(validate(c));
  }
}

TEST(Validate, FactorsStayInsideF32) {
  refused({"alpha is 1e+300"}, [](ModelConfig& c) { c.layer.alpha = 1e300; });
  refused({"s is -1e+31"}, [](ModelConfig& c) { c.layer.s = -1e31; });
  refused({"gate_value is 1e+31"}, [](ModelConfig& c) { c.layer.gate_value = 1e31; });
  refused({"dual is 1e+31"}, [](ModelConfig& c) { c.layer.dual = 1e31; });
  refused({"attention_scale is nan"}, [](ModelConfig& c) { c.layer.attention_scale = NAN; });
  refused({"init_std is 1e+300"}, [](ModelConfig& c) { c.init_std = 1e300; });
  refused({"embedding_scale is 1e+300"}, [](ModelConfig& c) { c.embedding_scale = 1e300; });
  refused({"router_aux is 1e+300"}, [](ModelConfig& c) { c.router_aux = 1e300; });
  refused({"base_width is 9223372036854775807"}, [](ModelConfig& c) { c.base_width = INT64_MAX; });
  refused({"base_layers is 100001"}, [](ModelConfig& c) { c.base_layers = 100001; });
}

}  // namespace
}  // namespace plumb::test
