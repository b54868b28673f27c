#include "text/vocabulary.h"

#include "base/check.h"
#include "base/hash.h"

namespace plumb {

size_t Vocabulary::slot(std::string_view token) const {
  const size_t mask = table_.size() - 1;
  size_t i = hash_bytes(token) & mask;
  while (table_[i] >= 0 && tokens_[static_cast<size_t>(table_[i])] != token) i = (i + 1) & mask;
  return i;
}

void Vocabulary::grow() {
  std::vector<int32_t> old(table_.empty() ? 64 : table_.size() * 2, -1);
  old.swap(table_);
  for (const int32_t id : old) {
    if (id >= 0) table_[slot(tokens_[static_cast<size_t>(id)])] = id;
  }
}

void Vocabulary::add(int32_t id, std::string token) {
  PLUMB_CHECK(id >= 0, "ids count from 0");
  if (2 * (count_ + 1) > table_.size()) grow();
  const size_t place = slot(token);
  if (table_[place] < 0) ++count_;
  if (static_cast<size_t>(id) >= tokens_.size()) tokens_.resize(static_cast<size_t>(id) + 1);
  tokens_[static_cast<size_t>(id)] = std::move(token);
  table_[place] = id;
}

int32_t Vocabulary::find(std::string_view token) const {
  return table_.empty() ? -1 : table_[slot(token)];
}

const std::string& Vocabulary::token(int32_t id) const {
  static const std::string none;
  return id >= 0 && static_cast<size_t>(id) < tokens_.size() ? tokens_[static_cast<size_t>(id)] : none;
}

}  // namespace plumb
