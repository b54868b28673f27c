// Trains a small LLaMA-shaped decoder on a text and writes with it.
//   decoder [FOLDER [TEXT_FILE_OR_FOLDER [STEPS]]]
#include <cstdio>
#include <cstdlib>
#include <string>

#include "plumb/dataset.h"
#include "plumb/error.h"
#include "plumb/generator.h"
#include "plumb/model.h"
#include "plumb/tokenizer.h"
#include "plumb/tokenizer_trainer.h"
#include "plumb/trainer.h"

namespace {

plumb::ModelConfig llama_shape(const plumb::Tokenizer& tokenizer) {
  plumb::ModelConfig c;  // pre-norm, RMSNorm, rotary positions, gated feed-forward: the defaults
  c.vocab_size = tokenizer.vocab_size();
  c.width = 128;
  c.decoder_layers = 3;
  c.max_length = 256;
  c.layer.heads = 4;
  c.layer.kv_heads = 2;
  c.bos_id = tokenizer.special(plumb::TokenRole::bos).value();
  c.eos_ids = {tokenizer.special(plumb::TokenRole::eos).value()};
  c.pad_id = tokenizer.special(plumb::TokenRole::pad).value();
  return c;
}

plumb::TrainOptions training(int64_t steps) {
  plumb::TrainOptions o;
  o.steps = steps;
  o.batch = 8;
  o.length = 96;
  o.lr = 3e-3;
  o.warmup = steps / 10;
  return o;
}

void run(const std::string& folder, const std::string& text, int64_t steps) {
  const plumb::Tokenizer tokenizer = plumb::train_tokenizer({text}, {.vocab_size = 1024});
  const plumb::Dataset data = plumb::Dataset::text(text, tokenizer);
  std::printf("%s\n", data.describe().c_str());

  plumb::Model model = plumb::Model::create(llama_shape(tokenizer), 1);
  std::printf("%lld parameters\n", static_cast<long long>(model.parameter_count()));
  plumb::Trainer trainer(model, data, training(steps), folder);
  trainer.run();  // shows its progress; callbacks get every step and evaluation

  const plumb::Generator generator(model, tokenizer);
  plumb::GenerateOptions options = generator.defaults();
  options.temperature = 0.8;
  options.max_new_tokens = 80;
  generator.generate("The", options, [](std::string_view piece) {
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
  });
  std::printf("\n%s/model holds the model; write on with: plumb generate %s The --temperature 0.8\n",
              folder.c_str(), folder.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : "decoder-run", argc > 2 ? argv[2] : plumb::default_corpus(),
        argc > 3 ? std::atoll(argv[3]) : 200);
  } catch (const plumb::Error& error) {
    std::fprintf(stderr, "decoder: %s\n", error.what());
    return 1;
  }
}
