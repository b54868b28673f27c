// One input walked through a model in the order in which a person learns a block: the shapes at each step,
// the order of what is normed and added, the numbers, and the way back of the gradient.
//
// What the numbers are. Of a tensor (1, T, C): mean over all elements; spread, the root of the mean over
// tokens of the variance within a token; RMS over all elements. Of a sub-layer y = N_out(alpha x + g b):
// added / kept, rms(g b) / rms(alpha x), and the cosine of x and y, mean over tokens. Of attention, by head:
// the key that receives most and its share of all the head gives, the mean distance |t - s|, and entropy / ln
// n over the n keys that a query sees (1: even, 0: one key). Of the gradient G at a sub-layer's x: the part
// that came by the shortcut and the part that came through the branch, as shares <part, G> / <G, G>, which
// sum to 1.
#pragma once

#include <memory>
#include <string>

#include "plumb/model.h"
#include "plumb/tokenizer.h"

namespace plumb {

class RunObserver;  // internal: Probe::observer() is one

struct TraceOptions {
  std::string target;  // what an encoder-decoder's decoder reads behind its start token
  bool gradient =
      false;  // also back through the next-token loss, or of an encoder a masked-token loss, of the text
  RunObserver* observer = nullptr;  // sees the text as a pass of its own; null: nobody
};

class Trace {
 public:
  // Runs the model. With `gradient` it is made trainable, and any gradient that it held is dropped. Throws
  // Error(input) for a text of no tokens or longer than the model, Error(unsupported) where there is no loss.
  Trace(Model& model, const Tokenizer& tokenizer, const std::string& text, const TraceOptions& options = {});
  ~Trace();
  Trace(Trace&&) noexcept;
  Trace& operator=(Trace&&) noexcept;

  std::string text() const;
  // One HTML file that needs no network; `name` is its heading. Throws Error(file).
  void write_page(const std::string& path, const std::string& name) const;

  const struct TraceData& data() const;  // internal

 private:
  std::unique_ptr<struct TraceData> data_;
};

}  // namespace plumb
