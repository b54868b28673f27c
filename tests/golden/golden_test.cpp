// Recorded models of published families: folders with weights, inputs, and the values that an engine has to
// reproduce from them, worked out in f64. Every value that a folder records is compared, the beams in
// beams_golden_test.cpp. PLUMB_GOLDEN names another folder of such folders.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "golden/golden_folders.h"
#include "kernels/optimizer.h"
#include "model/families.h"
#include "model/generation_defaults.h"
#include "model/safetensors.h"
#include "model/tensor_names.h"
#include "model/transformer.h"
#include "ops/embedding.h"
#include "ops/experts.h"
#include "plumb/error.h"
#include "plumb/model.h"
#include "support/files.h"
#include "support/tolerance.h"

namespace plumb::test {
namespace {

struct Batch {
  Tokens source;         // of an encoder
  Tokens target;         // of a decoder
  Tensor labels;         // (N) i32 for each position of the side that the head reads
  ClassTargets classes;  // instead, of a head over classes
};

struct Outcome {
  Tensor last;  // (B, T, C), what the head reads
  Transformer::Hidden encoder_hidden, decoder_hidden;
};

// Router logits of the sparse layers in their order, (R, E) of the real tokens.
class RouterLogits : public Observer {
 public:
  void forward(const Site&, const Tensor&) override {}
  void backward(const Site&, const Tensor&, const Tensor&) override {}
  void router(const std::string& module, const Tensor& logits) override {
    (module.starts_with("encoder.") ? encoder : decoder).push_back(logits);
  }
  std::vector<Tensor> encoder, decoder;
};

class Golden : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto path = golden_path() / GetParam();
    SKIP_WITHOUT(path);
    folder_ = path.string();
    model_.emplace(Model::load(folder_));
    file_.emplace(folder_ + "/golden.safetensors");
    // A product with a weight in bf16 rounds the other operand too; what is recorded did not.
    for (const auto& p : transformer().parameters().all()) {
      if (p->value.dtype() == DType::bf16) p->value = owned_f32(p->value);
    }
  }

  const ModelConfig& config() const { return model_->config(); }
  Transformer& transformer() const { return model_->transformer(); }
  bool has(const std::string& name) const { return file_->find(name) != nullptr; }
  Tensor floats(const std::string& name) const { return file_->tensor(name, DType::f32); }

  Tensor ids(const std::string& name) const {
    const Tensor wide = file_->tensor(name, DType::i64);
    Tensor narrow = Tensor::empty(wide.shape(), DType::i32);
    for (int64_t i = 0; i < wide.numel(); ++i) {
      narrow.data<int32_t>()[i] = static_cast<int32_t>(wide.data<int64_t>()[i]);
    }
    return narrow;
  }
  Tensor mask(const std::string& name) const {
    const Tensor wide = file_->tensor(name, DType::i64);
    Tensor narrow = Tensor::empty(wide.shape(), DType::u8);
    for (int64_t i = 0; i < wide.numel(); ++i) {
      narrow.data<uint8_t>()[i] = static_cast<uint8_t>(wide.data<int64_t>()[i]);
    }
    return narrow;
  }

  Batch batch() const {
    Batch b;
    const Tokens input{.ids = ids("input_ids"),
                       .mask = mask("attention_mask"),
                       .types = has("token_type_ids") ? ids("token_type_ids") : Tensor()};
    if (config().has_encoder()) b.source = input;
    if (tells_classes()) {
      b.classes = class_targets();
    } else {
      b.labels = ids("labels");
    }
    if (config().has_encoder() && config().has_decoder()) {
      b.target = {.ids = ids("decoder_input_ids"), .mask = mask("decoder_attention_mask")};
    } else if (config().has_decoder()) {
      b.target = input;
      if (!tells_classes()) b.labels = shifted(b.labels);
    }
    return b;
  }

  bool tells_classes() const { return config().head != Head::language_model && config().head != Head::none; }

  // Classes are whole numbers; several for a sequence, or numbers, are not.
  ClassTargets class_targets() const {
    if (has("start_positions")) return {.starts = ids("start_positions"), .ends = ids("end_positions")};
    if (file_->find("labels")->dtype == DType::i64) return {.classes = ids("labels")};
    return {.values = floats("labels")};
  }

  // The side that the head reads.
  const Tokens& last_tokens(const Batch& b) const { return config().has_decoder() ? b.target : b.source; }

  // Position t predicts label t + 1.
  static Tensor shifted(const Tensor& labels) {
    Tensor next = labels.clone();
    const int64_t length = labels.width();
    for (int64_t i = 0; i < labels.numel(); ++i) {
      next.data<int32_t>()[i] = i % length + 1 < length ? labels.data<int32_t>()[i + 1] : kIgnore;
    }
    return next;
  }

  Outcome run(Context& context, const Batch& b) const {
    Outcome o;
    if (config().has_encoder()) o.last = transformer().encode(context, b.source, &o.encoder_hidden);
    if (config().has_decoder()) {
      const Tensor memory = o.last, memory_mask = b.source.mask;
      o.last = transformer().decode(context, b.target, memory, memory_mask, &o.decoder_hidden);
    }
    return o;
  }

  // The mean loss of the batch with its part for the experts' balance, and, with a tape, its gradients.
  double loss_of(Context& context, const Batch& b) const {
    const int64_t count = tells_classes() ? b.classes.terms() : ClassTargets{.classes = b.labels}.terms();
    const double scale = 1.0 / static_cast<double>(count);
    ops::Balance balance{.weight = config().router_aux};
    context.balance = &balance;
    const Tensor hidden = run(context, b).last;
    const LossSums sums = tells_classes() ? transformer().classifier().loss(
                                                context, scores(context, hidden, b), b.classes, scale)
                                          : transformer().loss(context, hidden, b.labels, {.scale = scale});
    EXPECT_EQ(sums.count, count);
    if (context.tape) context.tape->backward();
    return sums.loss / static_cast<double>(sums.count) + config().router_aux * balance.value();
  }

  Tensor scores(Context& context, const Tensor& hidden, const Batch& b) const {
    const Tokens& tokens = last_tokens(b);
    return transformer().classifier().scores(context, hidden, tokens.ids, tokens.mask);
  }

  void expect_scores(const Tensor& got, const Tensor& row_mask, const std::string& prefix = "") const {
    if (config().head == Head::sequence_classification) {
      const Tensor want = floats(prefix + "logits");
      ASSERT_EQ(got.shape(), want.shape());
      EXPECT_TRUE(all_near(std::span<const float>(got.f32(), got.numel()),
                           std::span<const float>(want.f32(), want.numel()), kNearF32))
          << prefix << "logits";
    } else if (config().head == Head::token_classification) {
      expect_rows(got, prefix + "logits", row_mask);
    } else {
      Context context;
      const std::vector<Tensor> parts = ops::split_columns(context, got, {1, 1});
      for (const auto& [part, name] : {std::pair(0, "start_logits"), std::pair(1, "end_logits")}) {
        const Tensor want = floats(prefix + name);
        const std::vector<float> g = real_rows(parts[part], row_mask),
                                 w = real_rows(want.reshape(parts[part].shape()), row_mask);
        EXPECT_TRUE(all_near(std::span<const float>(g), std::span<const float>(w), kNearF32)) << name;
      }
    }
  }

  // Rows (.., C) of real tokens.
  static std::vector<float> real_rows(const Tensor& t, const Tensor& row_mask) {
    std::vector<float> rows;
    for (int64_t r = 0; r < t.rows(); ++r) {
      if (row_mask.data<uint8_t>()[r])
        rows.insert(rows.end(), t.f32() + r * t.width(), t.f32() + (r + 1) * t.width());
    }
    return rows;
  }

  void expect_rows(const Tensor& got, const std::string& name, const Tensor& row_mask) const {
    const Tensor want = floats(name);
    ASSERT_EQ(got.shape(), want.shape()) << name;
    const std::vector<float> g = real_rows(got, row_mask), w = real_rows(want, row_mask);
    EXPECT_TRUE(all_near(std::span<const float>(g), std::span<const float>(w), kNearF32)) << name;
  }

  void expect_hidden(const Transformer::Hidden& hidden, const std::string& name,
                     const Tensor& row_mask) const {
    for (size_t i = 0; i < hidden.size(); ++i) {
      expect_rows(hidden[i], name + "." + std::to_string(i), row_mask);
    }
    EXPECT_FALSE(has(name + "." + std::to_string(hidden.size()))) << "more layers than the model has";
  }

  void expect_router(const std::vector<Tensor>& logits, const std::string& name,
                     const Tensor& row_mask) const {
    for (size_t i = 0; has(name + ".0") && i < logits.size(); ++i) {
      const std::string numbered = name + "." + std::to_string(i);
      const std::vector<float> want = real_rows(floats(numbered), row_mask);
      EXPECT_TRUE(all_near(std::span<const float>(logits[i].f32(), logits[i].numel()),
                           std::span<const float>(want), kNearF32))
          << numbered;
    }
    EXPECT_FALSE(has(name + "." + std::to_string(logits.size()))) << "more sparse layers than the model has";
  }

  std::string folder_;
  std::optional<Model> model_;
  std::optional<SafetensorsFile> file_;
};

TEST_P(Golden, EveryRecordedValueIsKnown) {
  const std::set<std::string> inputs{"input_ids",       "attention_mask",    "token_type_ids",
                                     "labels",          "decoder_input_ids", "decoder_attention_mask",
                                     "left_padded_ids", "left_padded_mask",  "left_padded_position_ids",
                                     "prompt_ids",      "start_positions",   "end_positions"};
  const std::set<std::string> compared{
      "logits", "loss",           "aux_loss",     "adamw_losses", "left_padded_logits",
      "greedy", "greedy_nocache", "start_logits", "end_logits"};
  const std::set<std::string> of_search{"beam4", "beam4_scores"};
  for (const auto& entry : file_->entries()) {
    const std::string& n = entry.name;
    const bool known = inputs.contains(n) || compared.contains(n) || of_search.contains(n) ||
                       n.starts_with("grad.") || n.starts_with("hidden.") ||
                       n.starts_with("encoder_hidden.") || n.starts_with("decoder_hidden.") ||
                       n.starts_with("router_logits.") || n.starts_with("encoder_router_logits.") ||
                       n.starts_with("decoder_router_logits.");
    EXPECT_TRUE(known) << n << " is recorded and nothing compares it";
  }
}

TEST_P(Golden, HiddenStatesAndLogits) {
  const Batch b = batch();
  for (const bool plain : {false, true}) {
    RouterLogits router;
    ops::Balance balance;
    Context context{.plain = plain, .observer = &router, .balance = &balance};
    const Outcome o = run(context, b);
    if (has("aux_loss")) {
      EXPECT_NEAR(balance.value(), floats("aux_loss").f32()[0], 1e-4);
    }
    const bool both = config().has_encoder() && config().has_decoder();
    if (config().has_encoder())
      expect_hidden(o.encoder_hidden, both ? "encoder_hidden" : "hidden", b.source.mask);
    if (config().has_decoder())
      expect_hidden(o.decoder_hidden, both ? "decoder_hidden" : "hidden", b.target.mask);
    if (config().has_encoder())
      expect_router(router.encoder, both ? "encoder_router_logits" : "router_logits", b.source.mask);
    if (config().has_decoder())
      expect_router(router.decoder, both ? "decoder_router_logits" : "router_logits", b.target.mask);
    const Tensor& read = last_tokens(b).mask;
    if (tells_classes()) {
      expect_scores(scores(context, o.last, b), read);
    } else {
      expect_rows(transformer().logits(context, o.last), "logits", read);
    }
  }
}

TEST_P(Golden, LossAndGradients) {
  model_->make_trainable();
  const TensorNames names(config(), transformer().parameters());
  const Batch b = batch();
  for (const bool recompute : {false, true}) {
    Tape tape;
    Context context{.tape = &tape, .recompute = recompute};
    EXPECT_NEAR(loss_of(context, b), floats("loss").f32()[0], 1e-4);
    std::set<const Parameter*> seen;
    for (const auto& entry : file_->entries()) {
      if (!entry.name.starts_with("grad.")) continue;
      const FileTensor* t = names.tensor(entry.name.substr(5));
      ASSERT_NE(t, nullptr) << entry.name;
      for (const Parameter* p : t->parts) {
        seen.insert(p);
        ASSERT_TRUE(p->value.grad().defined()) << p->name << " got no gradient";
      }
      const Tensor got = t->in_file([](const Parameter&p) { return p.value.grad(); }),
                   want = file_->tensor(entry.name, DType::f32);
      ASSERT_EQ(got.shape(), want.shape()) << entry.name;
      EXPECT_TRUE(all_near(std::span<const float>(got.f32(), got.numel()),
                           std::span<const float>(want.f32(), want.numel()), kNearF32))
          << entry.name;
    }
    for (const auto& p : transformer().parameters().all()) {
      EXPECT_EQ(seen.contains(p.get()), p->trainable) << p->name;
      p->value.clear_grad();
    }
  }
}

// The factor of clip_grad_norm_ at 1, over all tensors.
double clipping(const ParameterTable& table) {
  double squares = 0;
  for (const auto& p : table.all()) {
    if (!p->trainable) continue;
    const Tensor g = p->value.grad();
    for (int64_t i = 0; i < g.numel(); ++i) squares += static_cast<double>(g.f32()[i]) * g.f32()[i];
  }
  return std::min(1.0, 1.0 / (std::sqrt(squares) + 1e-6));
}

// "lr" of about.json.
double recorded_lr(const std::string& folder) {
  const JsonFields about(parse_json_file(folder + "/about.json"), "about.json");
  return about.number("lr", NAN);
}

TEST_P(Golden, TenAdamWSteps) {
  model_->make_trainable();
  const Batch b = batch();
  const double lr = recorded_lr(folder_);
  const ParameterTable& table = transformer().parameters();
  // The reference decays tensors of two dimensions, to which it counts a bias of all experts.
  const TensorNames names(config(), table);
  std::set<const Parameter*> decays;
  for (const FileTensor& t : names.all()) {
    if (t.shape.rank() >= 2) decays.insert(t.parts.begin(), t.parts.end());
  }
  std::map<const Parameter*, std::pair<Tensor, Tensor>> moments;
  for (const auto& p : table.all()) moments[p.get()] = {Tensor::zeros(p->shape), Tensor::zeros(p->shape)};
  std::vector<double> losses;
  for (int step = 1; step <= 10; ++step) {
    Tape tape;
    Context context{.tape = &tape};
    losses.push_back(loss_of(context, b));
    const double factor = clipping(table);
    for (const auto& p : table.all()) {
      if (!p->trainable) continue;
      auto& [m, v] = moments.at(p.get());
      adamw_step({.n = p->shape.numel(),
                  .p = p->value.f32(),
                  .g = p->value.grad().f32(),
                  .m = m.f32(),
                  .v = v.f32(),
                  .lr = lr,
                  .beta1 = 0.9,
                  .beta2 = 0.95,
                  .eps = 1e-8,
                  .weight_decay = decays.contains(p.get()) ? 0.1 : 0.0,
                  .step = step,
                  .gradient_scale = factor});
      p->value.clear_grad();
    }
  }
  Context context;
  losses.push_back(loss_of(context, b));
  const Tensor want = floats("adamw_losses");
  EXPECT_TRUE(all_near(std::span<const double>(losses), std::span<const float>(want.f32(), want.numel()),
                       kNearTrainedF32));
}

TEST_P(Golden, LeftPaddingChangesNothing) {
  if (!has("left_padded_ids")) GTEST_SKIP() << "no left padding is recorded: not a decoder alone";
  const Tokens tokens{.ids = ids("left_padded_ids"), .mask = mask("left_padded_mask")};
  const Tensor positions = Sequence::from(tokens.ids.size(0), tokens.ids.size(1), tokens.mask).positions;
  const Tensor recorded = ids("left_padded_position_ids");
  for (int64_t i = 0; i < positions.numel(); ++i) {
    EXPECT_EQ(positions.data<int32_t>()[i], recorded.data<int32_t>()[i]) << i;
  }
  Context context;
  const Tensor hidden = transformer().decode(context, tokens);
  if (tells_classes()) {
    expect_scores(transformer().classifier().scores(context, hidden, tokens.ids, tokens.mask), tokens.mask,
                  "left_padded_");
  } else {
    expect_rows(transformer().logits(context, hidden), "left_padded_logits", tokens.mask);
  }
}

// What generation_config.json asks for, on one row of logits.
class Rules {
 public:
  Rules(const GenerationDefaults& defaults, size_t first, size_t last)
      : d_(defaults), first_(first), last_(last) {}

  int32_t best(const std::vector<int32_t>& so_far, std::span<const float> logits) const {
    if (so_far.size() == first_ && d_.forced_bos_id >= 0) return static_cast<int32_t>(d_.forced_bos_id);
    if (so_far.size() == last_ && d_.forced_eos_id >= 0) return static_cast<int32_t>(d_.forced_eos_id);
    int32_t best = -1;
    for (size_t i = 0; i < logits.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      if (!ruled_out(so_far, id) && (best < 0 || logits[i] > logits[best])) best = id;
    }
    return best;
  }
  bool ends(int32_t id) const { return std::count(d_.eos_ids.begin(), d_.eos_ids.end(), id) > 0; }

 private:
  bool ruled_out(const std::vector<int32_t>& so_far, int32_t id) const {
    for (const auto& word : d_.bad_words) {
      if (word.back() != id || (word.size() == 1 && ends(id)) || so_far.size() + 1 < word.size()) continue;
      if (std::equal(word.begin(), word.end() - 1, so_far.end() - (word.size() - 1))) return true;
    }
    return false;
  }

  const GenerationDefaults& d_;
  size_t first_, last_;
};

class Greedy : public Golden {
 protected:
  void SetUp() override {
    Golden::SetUp();
    if (IsSkipped()) return;
    if (!has("greedy")) GTEST_SKIP() << "no text is recorded: the model does not write";
    const bool both = config().has_encoder();
    const int64_t batch_size = both ? ids("input_ids").size(0) : 1;
    if (both) {
      Context context;
      const Tokens source{.ids = ids("input_ids"), .mask = mask("attention_mask")};
      memory_ = transformer().encode(context, source);
      memory_mask_ = source.mask;
      start_ = Tensor::empty({batch_size, 1}, DType::i32);
      std::fill_n(start_.data<int32_t>(), batch_size,
                  static_cast<int32_t>(model_->generation().decoder_start_id));
    } else {
      start_ = ids("prompt_ids");
    }
  }

  // Continues every row by the likeliest token; `next` gives the logits (B, V) at the end of the rows, of
  // which the last `fresh` tokens are new.
  template <class Next>
  void expect_greedy(Next next, const std::string& recorded = "greedy") const {
    const Tensor want = ids(recorded);
    const int64_t batch_size = start_.size(0), total = want.size(1);
    std::vector<std::vector<int32_t>> rows;
    for (int64_t b = 0; b < batch_size; ++b) {
      const int32_t* row = start_.data<int32_t>() + b * start_.size(1);
      rows.emplace_back(row, row + start_.size(1));
    }
    const Rules rules(model_->generation(), start_.size(1), total - 1);
    std::vector<bool> ended(batch_size);
    for (int64_t fresh = start_.size(1); static_cast<int64_t>(rows[0].size()) < total; fresh = 1) {
      const Tensor logits = next(rows, fresh);
      for (int64_t b = 0; b < batch_size; ++b) {
        const std::span<const float> row(logits.f32() + b * logits.width(), logits.width());
        const int32_t got = rules.best(rows[b], row);
        const int32_t expected = want.data<int32_t>()[b * total + rows[b].size()];
        if (!ended[b]) {
          EXPECT_EQ(got, expected) << "row " << b << ", token " << rows[b].size();
        }
        rows[b].push_back(got);
        ended[b] = ended[b] || rules.ends(expected);
      }
    }
  }

  // The last `count` tokens of every row, (B, count).
  static Tokens tail(const std::vector<std::vector<int32_t>>& rows, int64_t count) {
    std::vector<int32_t> flat;
    for (const auto& row : rows) flat.insert(flat.end(), row.end() - count, row.end());
    return {.ids = Tensor::of<int32_t>({static_cast<int64_t>(rows.size()), count}, flat)};
  }

  // Logits (B, V) of the last position of hidden states (B, T, C).
  Tensor last_logits(const Tensor& hidden) const {
    const int64_t length = hidden.size(1), width = hidden.size(2);
    Tensor last = Tensor::empty({hidden.size(0), width});
    for (int64_t b = 0; b < hidden.size(0); ++b) {
      std::copy_n(hidden.f32() + (b * length + length - 1) * width, width, last.f32() + b * width);
    }
    Context context;
    return transformer().logits(context, last);
  }

  Tensor start_, memory_, memory_mask_;
};

TEST_P(Greedy, WithCache) {
  Cache cache = transformer().make_cache(start_.size(0), 4);  // grows
  cache.memory = memory_;
  cache.memory_mask = memory_mask_;
  expect_greedy([&](const std::vector<std::vector<int32_t>>& rows, int64_t fresh) {
    Context context;
    return last_logits(transformer().decode_next(context, tail(rows, fresh), cache));
  });
}

TEST_P(Greedy, WithoutCache) {
  expect_greedy(
      [&](const std::vector<std::vector<int32_t>>& rows, int64_t) {
        Context context;
        const auto length = static_cast<int64_t>(rows[0].size());
        return last_logits(transformer().decode(context, tail(rows, length), memory_, memory_mask_));
      },
      has("greedy_nocache") ? "greedy_nocache" : "greedy");
}

TEST_P(Golden, SavedAndLoadedIsTheSame) {
  const TempFolder folder;
  model_->save(folder / "copy");
  const Model copy = Model::load(folder / "copy");
  EXPECT_EQ(write_config(copy.config(), ""), write_config(config(), ""));  // derived sizes are written out
  EXPECT_EQ(copy.generation(), model_->generation());
  const auto& before = transformer().parameters().all();
  const auto& after = copy.transformer().parameters().all();
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    const Tensor want = owned_f32(before[i]->value), got = after[i]->value;
    EXPECT_TRUE(all_near(std::span<const float>(got.f32(), got.numel()),
                         std::span<const float>(want.f32(), want.numel()), kSameBits))
        << before[i]->name;
  }
}

INSTANTIATE_TEST_SUITE_P(Folder, Golden, testing::ValuesIn(golden_folders().compared), folder_name);
INSTANTIATE_TEST_SUITE_P(Folder, Greedy, testing::ValuesIn(golden_folders().compared), folder_name);
// PLUMB_GOLDEN may name a folder in which nothing is supported.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Golden);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Greedy);

// What is not supported is refused by name, never approximated.
TEST(OtherFolders, AreRefused) {
  SKIP_WITHOUT(golden_path());
  for (const std::string& name : golden_folders().refused) {
    try {
      Model::load((golden_path() / name).string());
      ADD_FAILURE() << name << " loads although its config is refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported) << name << ": " << error.what();
      EXPECT_NE(std::string(error.what()).find(name + "/config.json"), std::string::npos) << error.what();
    }
  }
  if (std::getenv("PLUMB_GOLDEN")) return;
  EXPECT_GT(golden_folders().refused.size(), 0u);
}

}  // namespace
}  // namespace plumb::test
