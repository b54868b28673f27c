#include "text/decoder.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/utf8.h"
#include "plumb/error.h"
#include "text/byte_level.h"
#include "text/pattern.h"
#include "text/sentencepiece.h"

namespace plumb {
namespace {

constexpr size_t kLongestToken = size_t{1} << 28;
constexpr size_t kMostGrowthOfStep = 64;  // and 1 MB

[[noreturn]] void refuse_length(size_t bytes) {
  throw Error(ErrorKind::input, fmt::format("the decoder's steps make {} bytes of one token", bytes));
}

void check_length(size_t bytes) {
  if (bytes > kLongestToken) refuse_length(bytes);
}

// Every `from` in a text; an empty one stands before each character and at the end.
std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  if (from.empty()) {
    for (size_t i = 0; i < text.size();) {
      const size_t begin = i;
      next_code_point(text, i);
      result.append(to).append(text.substr(begin, i - begin));
    }
    return result.append(to);
  }
  size_t done = 0;
  for (size_t i = text.find(from); i != std::string_view::npos; i = text.find(from, done)) {
    result.append(text.substr(done, i - done)).append(to);
    done = i + from.size();
  }
  return result.append(text.substr(done));
}

// How English is written, as BERT's own code mends it.
std::string cleaned_up(std::string text) {
  static constexpr std::pair<const char*, const char*> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) {
    if (text.find(from) != std::string::npos) text = replaced(text, from, to);
  }
  return text;
}

// A stage that works on whole tokens: where they come in parts, it waits for the end.
class WholeTokens : public DecodeStage {
 public:
  explicit WholeTokens(bool joined) : joined_(joined) {}
  void add(std::string_view token, bool, const TakeToken& next) override {
    if (joined_) {
      held_ += token;
      check_length(held_.size());
    } else {
      take(token, next);
    }
  }
  void finish(const TakeToken& next) override {
    if (joined_) take(held_, next);
    end(next);
  }

 protected:
  virtual void take(std::string_view token, const TakeToken& next) = 0;
  virtual void end(const TakeToken& next) { (void)next; }

 private:
  bool joined_;
  std::string held_;
};

// A stage that makes of each token what a function says; index counts tokens.
class EachToken : public WholeTokens {
 public:
  using Change = std::function<std::string(std::string_view token, size_t index)>;
  EachToken(bool joined, Change change) : WholeTokens(joined), change_(std::move(change)) {}

 private:
  void take(std::string_view token, const TakeToken& next) override { next(change_(token, index_++), true); }
  Change change_;
  size_t index_ = 0;
};

class JoinBytes : public WholeTokens {
 public:
  using WholeTokens::WholeTokens;

 private:
  void take(std::string_view token, const TakeToken& next) override {
    const auto bytes = unspell_bytes(token);
    give(stream_.add(bytes ? std::string_view(*bytes) : token), next);
  }
  void end(const TakeToken& next) override { give(stream_.finish(), next); }
  void give(const std::string& text, const TakeToken& next) {
    if (text.empty()) return;
    next(text, std::exchange(first_, false));
  }
  Utf8Stream stream_;
  bool first_ = true;
};

class Fuse : public DecodeStage {
 public:
  void add(std::string_view token, bool, const TakeToken& next) override {
    next(token, std::exchange(first_, false));
  }

 private:
  bool first_ = true;
};

// The suffix that ends a word becomes a blank, but not behind the last token.
class WordEnds : public WholeTokens {
 public:
  WordEnds(bool joined, std::string suffix) : WholeTokens(joined), suffix_(std::move(suffix)) {}

 private:
  void take(std::string_view token, const TakeToken& next) override {
    if (last_) next(replaced(*last_, suffix_, " "), true);
    last_ = token;
  }
  void end(const TakeToken& next) override {
    if (last_) next(replaced(*last_, suffix_, ""), true);
    last_.reset();
  }
  std::string suffix_;
  std::optional<std::string> last_;
};

// "<0x0A>" and so on: a run of them is text if all of it is UTF-8, else one U+FFFD for each.
class ByteRuns : public WholeTokens {
 public:
  using WholeTokens::WholeTokens;

 private:
  static int byte_of(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
    int value = 0;
    for (const char c : token.substr(3, 2)) {
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return -1;
      value = value * 16 + digit;
    }
    return value;
  }
  void take(std::string_view token, const TakeToken& next) override {
    const int byte = byte_of(token);
    if (byte >= 0) {
      run_ += static_cast<char>(byte);
      return;
    }
    end(next);
    next(token, true);
  }
  void end(const TakeToken& next) override {
    if (run_.empty()) return;
    if (utf8_fault(run_) == kUtf8Valid) {
      next(run_, true);
    } else {
      for (size_t i = 0; i < run_.size(); ++i) next("\uFFFD", true);
    }
    run_.clear();
  }
  std::string run_;
};

// Takes up to `start` of a character from a token's beginning and `stop` from its end.
class StripEnds : public DecodeStage {
 public:
  StripEnds(bool joined, std::string content, size_t start, size_t stop)
      : joined_(joined), content_(std::move(content)), start_(start), stop_(stop), left_(start) {}
  void add(std::string_view token, bool, const TakeToken& next) override {
    const std::string out = stripped(token);
    if (!joined_ || !out.empty()) next(out, !joined_ || std::exchange(first_, false));
    if (joined_) return;
    left_ = start_;
    held_ = 0;
  }

 private:
  std::string stripped(std::string_view token) {
    std::string out;
    for (size_t i = 0; i < token.size();) {
      const size_t begin = i;
      next_code_point(token, i);
      const std::string_view c = token.substr(begin, i - begin);
      if (c != content_) {
        left_ = 0;
        for (; held_ > 0; --held_) out += content_;
        out += c;
      } else if (left_ > 0) {
        --left_;
      } else if (held_ < stop_) {
        ++held_;
      } else {
        out += c;
      }
    }
    return out;
  }

  bool joined_;
  std::string content_;
  size_t start_, stop_;
  size_t left_;      // that may still go at the beginning
  size_t held_ = 0;  // that go if the token ends here
  bool first_ = true;
};

// Connectionist temporal classification (Graves et al. 2006): of equal tokens in a row one stays.
class Ctc : public WholeTokens {
 public:
  struct Settings {
    std::string pad, delimiter;
    bool cleanup;
  };
  Ctc(bool joined, Settings settings) : WholeTokens(joined), settings_(std::move(settings)) {}

 private:
  void take(std::string_view token, const TakeToken& next) override {
    if (last_ && *last_ == token) return;
    last_ = token;
    std::string text = replaced(token, settings_.pad, "");
    if (settings_.cleanup) text = replaced(cleaned_up(text), settings_.delimiter, " ");
    if (!text.empty()) next(text, true);
  }
  Settings settings_;
  std::optional<std::string> last_;
};

void add_stage(Decoder& decoder, std::function<std::unique_ptr<DecodeStage>(bool)> make, bool joins = false) {
  decoder.stages.push_back(std::move(make));
  decoder.joins.push_back(joins);
}

void add_each(Decoder& decoder, EachToken::Change change) {
  add_stage(decoder, [change = std::move(change)](bool joined) {
    return std::make_unique<EachToken>(joined, change);
  });
}

void add_metaspace(Decoder& decoder, const JsonAt& json) {
  std::string mark;
  append_utf8(mark, json.character("replacement"));
  const std::string scheme =
      json.text("prepend_scheme", json.flag("add_prefix_space", true) ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    json.wrong("prepend_scheme", "always, first or never");
  const bool drops_first = scheme != "never";
  add_each(decoder, [=](std::string_view token, size_t index) {
    return replaced(token, mark, index == 0 && drops_first ? "" : " ");
  });
}

void add_wordpiece(Decoder& decoder, const JsonAt& json) {
  const std::string prefix = json.text("prefix");
  const bool cleanup = json.flag("cleanup");
  add_each(decoder, [=](std::string_view token, size_t index) {
    std::string text(token);
    if (index > 0) text = token.starts_with(prefix) ? text.substr(prefix.size()) : " " + text;
    return cleanup ? cleaned_up(text) : text;
  });
}

void add_replace(Decoder& decoder, const JsonAt& json) {
  const Pattern pattern = read_pattern(json);
  const std::string content = json.text("content");
  add_each(decoder, [=](std::string_view token, size_t) {
    std::string text;
    size_t done = 0;
    pattern.each(token, [&](size_t begin, size_t end) {
      text.append(token.substr(done, begin - done)).append(content);
      if (text.size() / kMostGrowthOfStep > token.size() + (1 << 14)) refuse_length(text.size());
      done = end;
    });
    return text.append(token.substr(done));
  });
}

void add_decoder(Decoder& decoder, const JsonAt& json) {
  const std::string type = json.type("decoder", {{"suffix", "BPEDecoder"},
                                                 {"prefix", "WordPiece"},
                                                 {"pad_token", "CTC"},
                                                 {"decoders", "Sequence"},
                                                 {"pattern", "Replace"},
                                                 {"start", "Strip"}});
  if (type == "Sequence") {
    const JsonAt list = json.list("decoders");
    for (size_t i = 0; i < list.size(); ++i) add_decoder(decoder, list.item(i));
  } else if (type == "ByteLevel") {
    add_stage(
        decoder, [](bool joined) { return std::make_unique<JoinBytes>(joined); }, true);
  } else if (type == "WordPiece") {
    add_wordpiece(decoder, json);
  } else if (type == "Metaspace") {
    add_metaspace(decoder, json);
  } else if (type == "BPEDecoder") {
    const std::string suffix = json.text("suffix");
    add_stage(decoder, [=](bool joined) { return std::make_unique<WordEnds>(joined, suffix); });
  } else if (type == "ByteFallback") {
    add_stage(decoder, [](bool joined) { return std::make_unique<ByteRuns>(joined); });
  } else if (type == "Fuse") {
    add_stage(
        decoder, [](bool) { return std::make_unique<Fuse>(); }, true);
  } else if (type == "Replace") {
    add_replace(decoder, json);
  } else if (type == "Strip") {
    std::string content;
    append_utf8(content, json.character("content"));
    const size_t start = json.whole("start", 1u << 30), stop = json.whole("stop", 1u << 30);
    const bool joined = !decoder.joins.empty() && decoder.joins.back();
    add_stage(
        decoder, [=](bool parts) { return std::make_unique<StripEnds>(parts, content, start, stop); },
        joined);
  } else if (type == "CTC") {
    const Ctc::Settings settings = {json.text("pad_token"), json.text("word_delimiter_token"),
                                    json.flag("cleanup")};
    add_stage(decoder, [=](bool joined) { return std::make_unique<Ctc>(joined, settings); });
  } else {
    json.unknown("decoder", type);
  }
}

}  // namespace

Decoder no_decoder() {
  Decoder decoder;
  add_each(decoder,
           [](std::string_view token, size_t index) { return (index > 0 ? " " : "") + std::string(token); });
  return decoder;
}

Decoder read_decoder(const JsonAt& json) {
  if (json.has("sentencepiece")) return read_sentencepiece_decoder(json);
  Decoder decoder;
  add_decoder(decoder, json);
  decoder.only_byte_level = json.has("type") && json.text("type") == "ByteLevel";
  return decoder;
}

DecodeChain::DecodeChain(const Decoder& decoder) {
  bool joined = false;
  for (size_t i = 0; i < decoder.stages.size(); ++i) {
    stages_.push_back(decoder.stages[i](joined));
    next_.emplace_back([this, i](std::string_view token, bool starts) { pass(i + 1, token, starts); });
    joined = decoder.joins[i];
  }
}

void DecodeChain::pass(size_t stage, std::string_view token, bool starts) {
  check_length(token.size());
  if (stage == stages_.size()) {
    out_ += token;
  } else {
    stages_[stage]->add(token, starts, next_[stage]);
  }
}

std::string DecodeChain::add(std::string_view token) {
  pass(0, token, true);
  return std::exchange(out_, {});
}

std::string DecodeChain::finish() {
  for (size_t i = 0; i < stages_.size(); ++i) stages_[i]->finish(next_[i]);
  return std::exchange(out_, {});
}

}  // namespace plumb
