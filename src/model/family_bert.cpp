// BERT (Devlin et al. 2018, 1810.04805): a post-norm encoder with learned positions, token types, a norm on
// the embeddings, and a head for masked tokens.
#include "model/families.h"

namespace plumb {
namespace {

ModelConfig read(const JsonFields& f) {
  ModelConfig c{.model_type = "bert"};
  c.vocab_size = f.integer("vocab_size", 30522);
  c.width = f.integer("hidden_size", 768);
  c.max_length = f.integer("max_position_embeddings", 512);
  c.encoder_layers = f.integer("num_hidden_layers", 12);
  c.decoder_layers = 0;
  c.positions = Positions::learned;
  c.token_types = f.integer("type_vocab_size", 2);
  c.embedding_norm = true;
  c.final_norm = false;
  c.tied_embeddings = f.flag("tie_word_embeddings", true);
  c.head_bias = true;
  c.head_transform = true;
  c.dropout = f.number("hidden_dropout_prob", 0.1);
  c.attention_dropout = f.number("attention_probs_dropout_prob", 0.1);
  c.embedding_dropout = c.dropout;
  c.init = Init::normal;
  c.init_std = f.number("initializer_range", 0.02);
  c.pad_id = 0;
  read_ids(f, c);
  c.pad_untrained = c.pad_id >= 0;

  LayerConfig& l = c.layer;
  l.placement = Placement::post_norm;
  l.norm = NormKind::layer_norm;
  l.norm_eps = f.number("layer_norm_eps", 1e-12);
  l.norm_bias = true;
  l.heads = f.integer("num_attention_heads", 12);
  l.attention_bias = l.attention_output_bias = true;
  l.ffn_width = f.integer("intermediate_size", 3072);
  l.activation = activation_named(f, "hidden_act", "gelu");
  l.gated = false;
  l.ffn_bias = true;
  refuse_unless(f, "is_decoder", false);
  refuse_unless(f, "add_cross_attention", false);
  refuse_unless(f, "position_embedding_type", "absolute");
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  const LayerConfig l = resolved_layer(c, Side::encoder, 0);
  j["vocab_size"] = c.vocab_size;
  j["hidden_size"] = c.width;
  j["max_position_embeddings"] = c.max_length;
  j["num_hidden_layers"] = c.encoder_layers;
  j["type_vocab_size"] = c.token_types;
  j["num_attention_heads"] = l.heads;
  j["intermediate_size"] = l.ffn_width;
  j["hidden_act"] = activation_name(l.activation);
  j["layer_norm_eps"] = l.norm_eps;
  j["tie_word_embeddings"] = c.tied_embeddings;
  j["hidden_dropout_prob"] = c.dropout;
  j["attention_probs_dropout_prob"] = c.attention_dropout;
  j["initializer_range"] = c.init_std;
  write_ids(c, j);
}

constexpr TensorName kNames[] = {
    {"token_embedding", "bert.embeddings.word_embeddings"},
    {"encoder.position_embedding", "bert.embeddings.position_embeddings"},
    {"type_embedding", "bert.embeddings.token_type_embeddings"},
    {"encoder.embedding_norm", "bert.embeddings.LayerNorm"},
    {"encoder.#.attention.query", "bert.encoder.layer.#.attention.self.query"},
    {"encoder.#.attention.key", "bert.encoder.layer.#.attention.self.key"},
    {"encoder.#.attention.value", "bert.encoder.layer.#.attention.self.value"},
    {"encoder.#.attention.output", "bert.encoder.layer.#.attention.output.dense"},
    {"encoder.#.attention.norm_out", "bert.encoder.layer.#.attention.output.LayerNorm"},
    {"encoder.#.feed_forward.up", "bert.encoder.layer.#.intermediate.dense"},
    {"encoder.#.feed_forward.down", "bert.encoder.layer.#.output.dense"},
    {"encoder.#.feed_forward.norm_out", "bert.encoder.layer.#.output.LayerNorm"},
    {"head.dense", "cls.predictions.transform.dense"},
    {"head.norm", "cls.predictions.transform.LayerNorm"},
    {"head.weight", "cls.predictions.decoder.weight"},
    {"head.bias", "cls.predictions.bias"},
};
constexpr TensorName kCopies[] = {{"token_embedding.weight", "cls.predictions.decoder.weight"},
                                  {"head.bias", "cls.predictions.decoder.bias"}};
// With tied embeddings the decoder's bias is the one beside it, else it is its own (in old files the same).
constexpr TensorName kUntied[] = {{"head.bias", "cls.predictions.decoder.bias"}};
// The pooler and the head for next sentences are no part of a model that fills masks.
constexpr std::string_view kIgnored[] = {"embeddings.position_ids",     "embeddings.token_type_ids",
                                         "pooler.dense.weight",         "pooler.dense.bias",
                                         "cls.seq_relationship.weight", "cls.seq_relationship.bias"};

}  // namespace

const Family kBert{.type = "bert",
                   .architecture = "BertForMaskedLM",
                   .read = read,
                   .write = write,
                   .prefix = "bert.",
                   .names = kNames,
                   .copies = kCopies,
                   .untied = kUntied,
                   .ignored = kIgnored};

}  // namespace plumb
