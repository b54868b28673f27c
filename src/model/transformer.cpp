#include "model/transformer.h"

#include <algorithm>
#include <cmath>

#include "kernels/embedding.h"
#include "ops/embedding.h"
#include "plumb/config_fields.h"
#include "plumb/error.h"

namespace plumb {

namespace {

// The rows of positions in a table whose first ones are no position's.
Tensor rows_of(const Tensor& positions, int64_t offset) {
  if (offset == 0) return positions;
  Tensor rows = positions.clone();
  for (int64_t i = 0; i < rows.numel(); ++i) rows.data<int32_t>()[i] += static_cast<int32_t>(offset);
  return rows;
}

int64_t token_width_of(const ModelConfig& config) {
  return config.embedding_width > 0 ? config.embedding_width : config.width;
}

Tensor sinusoids_of(const ModelConfig& config) {
  Tensor table = Tensor::empty({config.max_length, config.width});
  sinusoidal_table(config.sinusoidal_split ? Sinusoid::halves : Sinusoid::interleaved, config.max_length,
                   config.width, table.f32());
  return table;
}

// Whether nGPT keeps every vector at length 1.
bool is_all_unit(const ModelConfig& config) {
  return sublayer_formula(config, config.has_decoder() ? Side::decoder : Side::encoder, 0).unit;
}

bool tells_classes(const ModelConfig& config) {
  return config.head != Head::none && config.head != Head::language_model;
}

// Beyond which LongRoPE's layers have other frequencies.
std::vector<int64_t> longrope_lengths(const ModelConfig& config) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < config.decoder_layers && config.positions == Positions::rope; ++i) {
    const LayerConfig c = resolved_layer(config, Side::decoder, i);
    const bool known = std::ranges::find(lengths, c.rope.original_length) != lengths.end();
    if (c.rotary && c.rope.scaling == RopeScaling::longrope && !known)
      lengths.push_back(c.rope.original_length);
  }
  return lengths;
}

}  // namespace

Transformer::Transformer(const ModelConfig& config) : config_(config) {
  validate(config_);
  const Builder b{table_, config_, "", &next_site_};
  const bool all_unit = is_all_unit(config_);
  const UnitLength unit = all_unit || config_.unit_embeddings ? UnitLength::of_outputs : UnitLength::none;
  const auto table = [&](const std::string& name, int64_t rows, double std) {
    return table_.add(
        {.name = name, .shape = {rows, config_.width}, .role = Role::embedding, .init = {{rows, std}}});
  };
  const int64_t token_width = token_width_of(config_);
  const auto tokens = [&](const std::string& name, Side s) {
    Parameter* p = table(name, config_.vocab_size, embedding_std(config_, s));
    p->shape = {config_.vocab_size, token_width};
    p->unit = unit;
    return p;
  };
  const bool both = config_.has_encoder() && config_.has_decoder();
  if (!both || config_.shared_embeddings) {
    encoder_tokens_ = decoder_tokens_ =
        tokens("token_embedding.weight", config_.has_encoder() ? Side::encoder : Side::decoder);
  } else {
    encoder_tokens_ = tokens("encoder.token_embedding.weight", Side::encoder);
    decoder_tokens_ = tokens("decoder.token_embedding.weight", Side::decoder);
  }
  if (config_.embedding_width > 0) {
    embedding_in_ = Linear(b.child("embedding_in"), {token_width, {{config_.width, 1}}});
    embedding_out_ = Linear(b.child("embedding_out"), {config_.width, {{token_width, 1}}});
  }
  if (config_.positions == Positions::sinusoidal) sinusoids_ = sinusoids_of(config_);
  if (config_.token_types > 0)
    token_types_ = table("type_embedding.weight", config_.token_types, config_.init_std);
  const auto side = [&](Side s, const std::string& name, Parameter*& positions, std::optional<Norm>& norm,
                        std::optional<Stack>& stack) {
    if (config_.positions == Positions::learned)
      positions = table(name + ".position_embedding.weight", config_.position_offset + config_.max_length,
                        config_.init_std);
    if (config_.embedding_norm || all_unit) {  // nGPT's stream has length 1 from the first layer on
      const LayerConfig c = all_unit ? resolved_layer(config_, s, 0) : layer_config(config_, s, 0);
      norm.emplace(b.child(name + ".embedding_norm"), c, config_.width);
    }
    stack.emplace(b.child(name), s);
  };
  if (config_.has_encoder())
    side(Side::encoder, "encoder", encoder_positions_, encoder_embedding_norm_, encoder_);
  if (config_.has_decoder())
    side(Side::decoder, "decoder", decoder_positions_, decoder_embedding_norm_, decoder_);
  long_from_ = longrope_lengths(config_);
  scale_parameters();
  if (tells_classes(config_)) classifier_.emplace(b.child("head"), token_width);
  if (config_.head != Head::language_model) return;
  if (config_.head_transform) {
    const LayerConfig& c = config_.layer;
    head_dense_ = Linear(b.child("head.dense"), {config_.width, {{config_.width, 1}}, true});
    head_norm_.emplace(b.child("head.norm"), c, config_.width);
  }
  if (!config_.tied_embeddings) {
    head_ = table_.add({.name = "head.weight",
                        .shape = {config_.vocab_size, token_width},
                        .init = {{config_.vocab_size, head_std(config_)}},
                        .unit = unit});
  }
  if (all_unit) {
    const double start = 1 / std::sqrt(static_cast<double>(config_.width));
    logits_scale_.emplace(b, "head.scale", config_.vocab_size, start);
  }
  const auto bias = [&](const char* name, Role role) {
    return table_.add({.name = name, .shape = {config_.vocab_size}, .role = role});
  };
  if (config_.head_bias) head_bias_ = bias("head.bias", Role::bias);
  if (config_.logits_bias) logits_bias_ = bias("head.logits_bias", Role::statistic);
}

// Those of layers: "decoder.3. ...". Embeddings, the head and norms around the stack keep their rates.
void Transformer::scale_parameters() {
  for (const auto& p : table_.all()) {
    const size_t dot = p->name.find('.');
    if (dot + 1 >= p->name.size() || p->name[dot + 1] < '0' || p->name[dot + 1] > '9') continue;
    const Side side = p->name.starts_with("encoder.") ? Side::encoder : Side::decoder;
    p->scales = scales_of(config_, side, p->role == Role::matrix);
  }
}

void Transformer::check(const Tokens& tokens, Side side, int64_t before) const {
  const char* where = side == Side::encoder ? "encoder" : "decoder";
  PLUMB_CHECK(tokens.ids.defined() && tokens.ids.shape().rank() == 2, "ids are (B, T)");
  const int32_t* ids = tokens.ids.data<int32_t>();
  for (int64_t i = 0; i < tokens.ids.numel(); ++i) {
    if (ids[i] < 0 || ids[i] >= config_.vocab_size) {
      throw Error(ErrorKind::input,
                  fmt::format("token id {} at position {} of the {}'s input is outside the vocabulary of {}",
                              ids[i], i % tokens.ids.size(1), where, config_.vocab_size));
    }
  }
  const int64_t length = before + tokens.ids.size(1);
  if (length > config_.max_length) {
    throw Error(ErrorKind::input,
                fmt::format("a sequence of {} tokens is longer than the {} that the model's {} was made for "
                            "(max_length)",
                            length, config_.max_length, where));
  }
}

// The sum of all look-ups, (B, T, C).
Tensor Transformer::looked_up(Context& context, Side side, const Tokens& tokens,
                              const Sequence& sequence) const {
  const bool encoder = side == Side::encoder;
  std::vector<ops::Lookup> lookups;
  lookups.push_back({encoder ? encoder_tokens_->value : decoder_tokens_->value, tokens.ids,
                     config_.embedding_scale, config_.pad_untrained ? config_.pad_id : -1});
  Tensor mapped;
  if (embedding_in_) {
    mapped = embedding_in_->forward(context, ops::embedding(context, lookups));
    lookups.clear();
  }
  if (const Parameter* p = encoder ? encoder_positions_ : decoder_positions_) {
    lookups.push_back({p->value, rows_of(sequence.positions, config_.position_offset)});
  }
  if (sinusoids_.defined()) lookups.push_back({sinusoids_, sequence.positions});
  if (token_types_ && encoder) {
    lookups.push_back({token_types_->value, tokens.types.defined()
                                                ? tokens.types
                                                : Tensor::zeros(tokens.ids.shape(), DType::i32)});
  }
  if (!embedding_in_) return ops::embedding(context, lookups);
  return lookups.empty() ? mapped : ops::add(context, mapped, ops::embedding(context, lookups));
}

Tensor Transformer::embed(Context& context, Side side, const Tokens& tokens, const Sequence& sequence) const {
  const bool encoder = side == Side::encoder;
  Tensor x = looked_up(context, side, tokens, sequence);
  if (closely(context)) observe(context, encoder ? "encoder" : "decoder", "embedding", x);
  const auto& norm = encoder ? encoder_embedding_norm_ : decoder_embedding_norm_;
  if (norm) x = norm->forward(context, x, 1, sequence.mask);
  return ops::dropout(context, x, config_.embedding_dropout, encoder ? next_site_ : next_site_ + 1);
}

Tensor Transformer::encode(Context& context, const Tokens& tokens, Hidden* hidden) const {
  PLUMB_CHECK(encoder_.has_value(), "the model has no encoder");
  check(tokens, Side::encoder, 0);
  const StackPass pass{.tokens = Sequence::from(tokens.ids.size(0), tokens.ids.size(1), tokens.mask),
                       .hidden = hidden};
  return encoder_->forward(context, embed(context, Side::encoder, tokens, pass.tokens), pass);
}

Tensor Transformer::decode(Context& context, const Tokens& tokens, const Tensor& memory,
                           const Tensor& memory_mask, Hidden* hidden) const {
  PLUMB_CHECK(decoder_.has_value(), "the model has no decoder");
  PLUMB_CHECK(memory.defined() == config_.has_encoder(), "cross-attention reads an encoder's output");
  check(tokens, Side::decoder, 0);
  const StackPass pass{
      .tokens = Sequence::from(tokens.ids.size(0), tokens.ids.size(1), tokens.mask, {}, tokens.starts),
      .memory = memory,
      .memory_mask = memory_mask,
      .hidden = hidden};
  Tensor y = decoder_->forward(context, embed(context, Side::decoder, tokens, pass.tokens), pass);
  if (!embedding_out_) return y;
  Tensor mapped = embedding_out_->forward(context, y);
  observe_closely(context, "decoder", "narrowed", mapped);
  if (hidden) hidden->back() = mapped;
  return mapped;
}

Cache Transformer::make_cache(int64_t batch, int64_t slots) const {
  Cache cache(batch, config_.decoder_layers, slots);
  if (!long_from_.empty()) cache.ids = Tensor::zeros({batch, slots}, DType::i32);
  return cache;
}

// Equal for two lengths of which the keys that are cached are the same. The base of dynamic scaling stays
// that of the pass that wrote a key, as where it comes from.
int64_t Transformer::rotary_regime(int64_t length) const {
  return std::count_if(long_from_.begin(), long_from_.end(), [&](int64_t n) { return length > n; });
}

// The whole sequence as one pass, where the keys of its beginning are no longer right.
Tensor Transformer::decode_again(Context& context, const Tokens& tokens, Cache& cache) const {
  const int64_t before = cache.length, fresh = tokens.ids.size(1), batch = cache.batch;
  const int64_t length = before + fresh, width = config_.width;
  const Tokens all{.ids = Tensor::empty({batch, length}, DType::i32),
                   .mask = Tensor::empty({batch, length}, DType::u8)};
  for (int64_t b = 0; b < batch; ++b) {
    int32_t* ids = all.ids.data<int32_t>() + b * length;
    std::copy_n(cache.ids.data<int32_t>() + b * cache.capacity, before, ids);
    std::copy_n(tokens.ids.data<int32_t>() + b * fresh, fresh, ids + before);
    uint8_t* mask = all.mask.data<uint8_t>() + b * length;
    std::copy_n(cache.mask.data<uint8_t>() + b * cache.capacity, before, mask);
    if (tokens.mask.defined()) {
      std::copy_n(tokens.mask.data<uint8_t>() + b * fresh, fresh, mask + before);
    } else {
      std::fill_n(mask + before, fresh, uint8_t{1});
    }
  }
  Cache other = make_cache(batch, cache.capacity);
  other.memory = cache.memory;
  other.memory_mask = cache.memory_mask;
  const Tensor y = decode_next(context, all, other);
  cache = std::move(other);
  Tensor last = Tensor::empty({batch, fresh, width});
  for (int64_t b = 0; b < batch; ++b) {
    std::copy_n(y.f32() + (b * length + before) * width, fresh * width, last.f32() + b * fresh * width);
  }
  return last;
}

Tensor Transformer::decode_next(Context& context, const Tokens& tokens, Cache& cache) const {
  PLUMB_CHECK(decoder_.has_value() && context.tape == nullptr, "a cache is for running, not for training");
  PLUMB_CHECK(tokens.ids.size(0) == cache.batch, "{} sequences for a cache of {}", tokens.ids.size(0),
              cache.batch);
  PLUMB_CHECK(!config_.has_encoder() || cache.memory.defined(), "the cache lacks the encoder's output");
  const int64_t length = tokens.ids.size(1);
  const Sequence sequence = Sequence::from(cache.batch, length, tokens.mask, cache.positions);
  const int64_t regime = rotary_regime(sequence.longest());
  if (cache.length > 0 && regime != cache.rotary_regime) return decode_again(context, tokens, cache);
  cache.rotary_regime = regime;
  cache.reserve(cache.length + length);
  int64_t longest = 0;
  for (int64_t b = 0; b < cache.batch; ++b) {
    uint8_t* slots = cache.mask.data<uint8_t>() + b * cache.capacity + cache.length;
    for (int64_t t = 0; t < length; ++t) {
      slots[t] = sequence.all_real() ? 1 : sequence.mask.data<uint8_t>()[b * length + t];
    }
    if (cache.ids.defined()) {
      std::copy_n(tokens.ids.data<int32_t>() + b * length, length,
                  cache.ids.data<int32_t>() + b * cache.capacity + cache.length);
    }
    longest = std::max<int64_t>(longest, cache.positions.data<int32_t>()[b]);
  }
  check(tokens, Side::decoder, longest);
  const StackPass pass{
      .tokens = sequence, .cache = &cache, .memory = cache.memory, .memory_mask = cache.memory_mask};
  Tensor y = decoder_->forward(context, embed(context, Side::decoder, tokens, sequence), pass);
  for (int64_t b = 0; b < cache.batch; ++b) {
    const uint8_t* slots = cache.mask.data<uint8_t>() + b * cache.capacity + cache.length;
    cache.positions.data<int32_t>()[b] += static_cast<int32_t>(std::count(slots, slots + length, uint8_t{1}));
  }
  cache.length += length;
  return embedding_out_ ? embedding_out_->forward(context, y) : y;
}

const Classifier& Transformer::classifier() const {
  PLUMB_CHECK(classifier_.has_value(), "the model has no head over classes");
  return *classifier_;
}

ops::Head Transformer::head() const {
  if (config_.head != Head::language_model) {
    throw Error(
        ErrorKind::unsupported,
        fmt::format("the model's head is {}, and this takes a language-model head", enum_name(config_.head)));
  }
  const Parameter* w = head_ ? head_ : (decoder_ ? decoder_tokens_ : encoder_tokens_);
  return {.map = {w->value, head_bias_ ? head_bias_->value : Tensor(), false},
          .scale = logits_scale_ ? logits_scale_->factors() : ops::ColumnFactors{},
          .untrained_bias = logits_bias_ ? logits_bias_->value : Tensor(),
          .softcap = config_.logits_softcap};
}

Tensor Transformer::before_head(Context& context, const Tensor& given) const {
  Tensor hidden =
      ops::norm(context, given, {.kind = NormKind::none}, config_.logits_scale / width_ratio(config_));
  if (!head_dense_) return hidden;
  const Tensor h = ops::activation(context, head_dense_->forward(context, hidden), config_.layer.activation);
  if (closely(context)) observe(context, "head", "hidden", h);
  Tensor normed = head_norm_->forward(context, h);
  if (closely(context)) observe(context, "head", "inner", normed);
  return normed;
}

Tensor Transformer::logits(Context& context, const Tensor& hidden) const {
  Tensor y = ops::logits(context, before_head(context, hidden), head());
  if (context.observer) context.observer->logits(y.reshape({y.rows(), y.width()}));
  return y;
}

// Of at most 64 rows that have a target, since a loss never holds all logits at once.
void Transformer::show_logits(const Context& context, const Tensor& hidden, const Tensor& targets) const {
  constexpr size_t kRows = 64;
  std::vector<int64_t> rows;
  for (int64_t r = 0; r < targets.numel(); ++r) {
    if (targets.data<int32_t>()[r] != kIgnore) rows.push_back(r);
  }
  const size_t count = std::min(rows.size(), kRows);
  if (count == 0) return;
  const int64_t width = hidden.width();
  const Tensor some = Tensor::empty({static_cast<int64_t>(count), width});
  for (size_t i = 0; i < count; ++i) {
    std::copy_n(hidden.f32() + rows[i * rows.size() / count] * width, width,
                some.f32() + static_cast<int64_t>(i) * width);
  }
  Context aside{.plain = context.plain, .compute = context.compute};
  context.observer->logits(logits(aside, some));
}

LossSums Transformer::loss(Context& context, const Tensor& hidden, const Tensor& targets,
                           const ops::LossOptions& options) const {
  if (context.observer) show_logits(context, hidden, targets);
  return ops::linear_cross_entropy(context, before_head(context, hidden), head(), targets, options);
}

}  // namespace plumb
