// The files that a tokenizer is published in. docs/tokenizers.md says what is looked for, in which order.
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "text/json_at.h"
#include "text/tokenizer_impl.h"

namespace plumb {

// Fills an empty Impl, all but what finish() makes, from a file or from what a folder holds. Error(file)
// names the file and the place in it that is malformed, Error(unsupported) what this build does not follow.
void read_tokenizer(const std::string& path, Tokenizer::Impl& impl);

// Whether a folder has a file that read_tokenizer() takes.
bool has_tokenizer(const std::string& folder);

// tokenizer_config.json beside a file; an empty object where there is none.
class ConfigBeside {
 public:
  explicit ConfigBeside(const std::string& file);
  JsonAt json() const { return {*root_, path_}; }
  std::string tokenizer_class() const;  // without "Fast" at its end; "" if none is named

 private:
  std::string path_;
  std::shared_ptr<Json> root_;
};

// Each kind of file. Roles are set where the file itself says them.
void read_tokenizer_json(const std::string& path, Tokenizer::Impl& impl);
void read_sentencepiece_file(const std::string& path, Tokenizer::Impl& impl);
void read_gguf_tokenizer(const std::string& path, Tokenizer::Impl& impl);
// Those that do not say how a text is cut: the config beside them does.
void read_vocabulary_and_merges(const std::string& path, const ConfigBeside& config,
                                Tokenizer::Impl& impl);  // vocab.json
void read_bert_vocabulary(const std::string& path, const ConfigBeside& config,
                          Tokenizer::Impl& impl);  // vocab.txt
void read_ranks(const std::string& path, const ConfigBeside& config,
                Tokenizer::Impl& impl);                            // NAME.tiktoken
void read_tekken(const std::string& path, Tokenizer::Impl& impl);  // tekken.json

}  // namespace plumb
