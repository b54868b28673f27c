// Sequences that are being written: what the decoder's cache holds of them, and the logits of what comes
// next.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/run_observer.h"
#include "model/transformer.h"

namespace plumb {

// Not to be shared between threads; several may use one model.
class Decoding {
 public:
  struct Options {
    int64_t slots = 0;                // tokens that the cache is made for; it grows where this was too few
    int64_t chunk = 0;                // tokens read at once; 0: all
    RunObserver* observer = nullptr;  // sees each pass of the decoder, the encoder's with the first
  };

  // Reads the prompts, each of at least one token; of an encoder-decoder they continue the decoder's side,
  // and `sources` (as many, else none) are what the encoder reads. Shorter prompts are padded on the left.
  // Throws Error(input) for ids and lengths that the model has no rows for.
  Decoding(const Transformer& model, std::span<const std::vector<int32_t>> prompts,
           std::span<const std::vector<int32_t>> sources, const Options& options);

  int64_t batch() const { return cache_.batch; }
  // Of the token after the last (V), of sequence b. Valid, and the caller's to change, until the next step.
  std::span<float> logits(int64_t b) const;

  void step(std::span<const int32_t> ids);  // one token for each sequence
  void keep(
      const std::vector<int64_t>& sequences);  // sequence b is what sequences[b] was; logits do not follow

 private:
  void read_sources(std::span<const std::vector<int32_t>> sources);
  void read(const Tokens& tokens, bool last);
  Observer* begin_pass();  // who watches the pass that begins or goes on, or null
  void end_pass();

  const Transformer& model_;
  Cache cache_;
  Tensor ids_;     // (B, 1) of a step
  Tensor logits_;  // (B, V)
  RunObserver* observer_;
  bool in_pass_ = false, watched_ = false;
};

// Sequences side by side, shorter ones padded at one end with id 0 under mask 0. No mask where none is
// shorter.
enum class PadSide { left, right };
Tokens padded(std::span<const std::vector<int32_t>> sequences, PadSide side);

}  // namespace plumb
