// A value inside a JSON file, with its place: whoever finds it wrong names the file and the path in it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace plumb {

// The members of "model.vocab" that are ids and those of "model.merges" that are pairs, which make up nearly
// all of a tokenizer.json: kept beside the tree, in the order of the file. Merges in the tree come after
// them.
struct ModelRows {
  std::vector<std::pair<std::string, int32_t>> ids;
  std::vector<std::pair<std::string, std::string>> merges;
};

class JsonAt {
 public:
  JsonAt(const Json& value, const std::string& file, std::string path = "", const ModelRows* rows = nullptr)
      : value_(&value), file_(&file), path_(std::move(path)), rows_(rows) {}

  const Json& value() const { return *value_; }
  const std::string& file() const { return *file_; }
  const std::string& path() const { return path_; }
  const ModelRows& rows() const;  // of the file that this is a value of

  // Error(file): "FILE: PATH: what".
  [[noreturn]] void malformed(const std::string& what) const;
  // "FILE: PATH.key is VALUE, expected ..."
  [[noreturn]] void wrong(const std::string& key, std::string_view expected) const;

  // Error(unsupported): "FILE: PATH: the decoder "TYPE" is not known"
  [[noreturn]] void unknown(std::string_view what, const std::string& type) const;

  // The component's "type"; of files that wrote none, the type of the first key that it has. `what` it is:
  // "decoder".
  std::string type(std::string_view what,
                   std::initializer_list<std::pair<const char*, const char*>> types_by_key) const;

  bool has(const char* key) const;       // given, and not null
  JsonAt at(const char* key) const;      // has to be given
  JsonAt object(const char* key) const;  // has to be an object
  JsonAt list(const char* key) const;    // has to be a list
  JsonAt item(size_t index) const;       // of a list
  size_t size() const;                   // of a list or object
  std::string text(const char* key) const;
  std::string text(const char* key, const std::string& fallback) const;
  char32_t character(const char* key) const;  // a text of one
  bool flag(const char* key) const;
  bool flag(const char* key, bool fallback) const;
  uint64_t whole(const char* key, uint64_t most) const;
  int32_t id(const char* key) const;

 private:
  const Json* value_;
  const std::string* file_;
  std::string path_;
  const ModelRows* rows_;
};

}  // namespace plumb
