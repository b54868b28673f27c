#include "infer/text_stream.h"

#include <algorithm>
#include <utility>

namespace plumb {

std::string StopFilter::add(std::string_view piece) {
  if (stopped_) return {};
  held_ += piece;
  size_t first = std::string::npos;
  for (const std::string& stop : stop_) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    stopped_ = true;
    std::string out = held_.substr(0, first);
    held_.clear();
    return out;
  }
  size_t keep = 0;  // longest end of the text that begins a stop string
  for (const std::string& stop : stop_) {
    size_t n = std::min(held_.size(), stop.size() - 1);
    while (n > keep && !held_.ends_with(std::string_view(stop).substr(0, n))) --n;
    keep = std::max(keep, n);
  }
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, out.size());
  return out;
}

std::string StopFilter::finish() {
  return stopped_ ? std::string() : std::exchange(held_, {});
}

void TextStream::finish() {
  show(filter_.add(decoder_.finish()));
  show(filter_.finish());
}

void TextStream::show(const std::string& piece) {
  if (piece.empty()) return;
  text_ += piece;
  if (on_text_) on_text_(piece);
}

}  // namespace plumb
