// Trains a small encoder to fill in masked tokens of a text, and fills some in.
//   encoder [FOLDER [TEXT_FILE_OR_FOLDER [STEPS]]]
#include <cstdio>
#include <cstdlib>
#include <string>

#include "plumb/dataset.h"
#include "plumb/error.h"
#include "plumb/fill_mask.h"
#include "plumb/model.h"
#include "plumb/tokenizer.h"
#include "plumb/tokenizer_trainer.h"
#include "plumb/trainer.h"

namespace {

plumb::ModelConfig encoder_shape(const plumb::Tokenizer& tokenizer) {
  plumb::ModelConfig c;  // pre-norm, RMSNorm, rotary positions, gated feed-forward: the defaults
  c.vocab_size = tokenizer.vocab_size();
  c.width = 128;
  c.decoder_layers = 0;
  c.encoder_layers = 3;
  c.max_length = 128;
  c.layer.heads = 4;
  c.pad_id = tokenizer.special(plumb::TokenRole::pad).value();
  c.mask_id = tokenizer.special(plumb::TokenRole::mask).value();
  return c;
}

plumb::TrainOptions training(int64_t steps) {
  plumb::TrainOptions o;
  o.steps = steps;
  o.batch = 32;
  o.length = 32;
  o.lr = 4e-3;
  o.warmup = steps / 5;
  return o;
}

void run(const std::string& folder, const std::string& text, int64_t steps) {
  const plumb::Tokenizer tokenizer = plumb::train_tokenizer({text}, {.vocab_size = 1024});
  const plumb::Dataset data = plumb::Dataset::masked_text(text, tokenizer);
  std::printf("%s\n", data.describe().c_str());

  plumb::Model model = plumb::Model::create(encoder_shape(tokenizer), 1);
  plumb::Trainer trainer(model, data, training(steps), folder);
  trainer.run();  // shows its progress; callbacks get every step and evaluation

  const std::string mask = tokenizer.token(*tokenizer.special(plumb::TokenRole::mask));
  const std::string sentence = "There is" + mask + " way to do it, and it is" + mask + " best one.";
  std::printf("%s\n", sentence.c_str());
  for (const auto& guesses : plumb::fill_masks(model, tokenizer, sentence)) {
    for (const auto& g : guesses) std::printf("  \"%s\" %.1f %%", g.text.c_str(), 100 * g.probability);
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : "encoder-run", argc > 2 ? argv[2] : plumb::default_corpus(),
        argc > 3 ? std::atoll(argv[3]) : 600);
  } catch (const plumb::Error& error) {
    std::fprintf(stderr, "encoder: %s\n", error.what());
    return 1;
  }
}
