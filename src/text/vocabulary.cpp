#include "text/vocabulary.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/hash.h"

namespace plumb {

size_t Vocabulary::slot(std::string_view token, uint64_t hash) const {
  const size_t mask = table_.size() - 1;
  size_t i = hash & mask;
  const auto holds = [&](const Place& place) {
    return place.hash == hash >> 32 && tokens_[static_cast<size_t>(place.id)] == token;
  };
  while (table_[i].id >= 0 && !holds(table_[i])) i = (i + 1) & mask;
  return i;
}

void Vocabulary::resize(size_t places) {
  std::vector<Place> old(places);
  old.swap(table_);
  for (const Place& place : old) {
    if (place.id < 0) continue;
    const std::string& token = tokens_[static_cast<size_t>(place.id)];
    const uint64_t hash = hash_bytes(token);
    table_[slot(token, hash)] = {place.id, static_cast<uint32_t>(hash >> 32)};
  }
}

void Vocabulary::reserve(size_t count) {
  const size_t places = std::bit_ceil(std::max<size_t>(2 * count, 64));
  if (places > table_.size()) resize(places);
  tokens_.reserve(count);
}

void Vocabulary::add(int32_t id, std::string token) {
  PLUMB_CHECK(id >= 0, "ids count from 0");
  if (2 * (count_ + 1) > table_.size()) resize(std::max<size_t>(64, table_.size() * 2));
  const uint64_t hash = hash_bytes(token);
  Place& place = table_[slot(token, hash)];
  if (place.id < 0) ++count_;
  if (static_cast<size_t>(id) >= tokens_.size()) tokens_.resize(static_cast<size_t>(id) + 1);
  tokens_[static_cast<size_t>(id)] = std::move(token);
  place = {id, static_cast<uint32_t>(hash >> 32)};
}

int32_t Vocabulary::find(std::string_view token) const {
  return table_.empty() ? -1 : table_[slot(token, hash_bytes(token))].id;
}

const std::string& Vocabulary::token(int32_t id) const {
  static const std::string none;
  return id >= 0 && static_cast<size_t>(id) < tokens_.size() ? tokens_[static_cast<size_t>(id)] : none;
}

}  // namespace plumb
