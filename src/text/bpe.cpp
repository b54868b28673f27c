#include "text/bpe.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <limits>
#include <queue>

#include "base/random.h"

namespace plumb {
namespace {

constexpr size_t kShort = 64;  // up to here a scan for the lowest rank beats a heap
constexpr uint64_t kDropoutSeed = 0x6272646f;
constexpr uint64_t kNoPair = ~0ull;
constexpr int32_t kNoRank = std::numeric_limits<int32_t>::max();

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

uint64_t scatter(uint64_t key) {
  key *= 0x9e3779b97f4a7c15ull;
  return key ^ key >> 32;
}

}  // namespace

Bpe::Bpe(const std::array<int32_t, 256>& byte_ids, std::vector<BpeMerge> merges)
    : byte_ids_(byte_ids), merges_(std::move(merges)) {
  table_.assign(std::bit_ceil(merges_.size() + merges_.size() / 2 + 2), {kNoPair, 0, 0});
  for (size_t rank = 0; rank < merges_.size(); ++rank) insert(static_cast<int32_t>(rank));
}

void Bpe::insert(int32_t rank) {
  const BpeMerge& merge = merges_[static_cast<size_t>(rank)];
  const uint64_t key = pair_key(merge.left, merge.right);
  const size_t mask = table_.size() - 1;
  size_t i = scatter(key) & mask;
  while (table_[i].pair != kNoPair && table_[i].pair != key) i = (i + 1) & mask;
  table_[i] = {key, rank, merge.joined};
}

const Bpe::Entry* Bpe::find(int32_t left, int32_t right) const {
  const uint64_t key = pair_key(left, right);
  const size_t mask = table_.size() - 1;
  for (size_t i = scatter(key) & mask; table_[i].pair != kNoPair; i = (i + 1) & mask) {
    if (table_[i].pair == key) return &table_[i];
  }
  return nullptr;
}

size_t Bpe::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
  const size_t first = ids.size();
  for (size_t i = 0; i < word.size(); ++i) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(word[i])];
    if (id < 0) return i;
    ids.push_back(id);
  }
  merge(ids, first, nullptr);
  return word.size();
}

void Bpe::merge(std::vector<int32_t>& ids, size_t first, std::vector<uint32_t>* lengths) const {
  const size_t count = ids.size() - first;
  if (merges_.empty() || count < 2) return;
  if (count > kShort) return merge_long(ids, first, lengths, 0);
  const size_t left = merge_short(ids.data() + first, count, lengths ? lengths->data() : nullptr);
  ids.resize(first + left);
  if (lengths) lengths->resize(left);
}

void Bpe::merge_with_dropout(std::vector<int32_t>& ids, std::vector<uint32_t>& lengths,
                             double dropout) const {
  merge_long(ids, 0, &lengths, dropout);
}

// Merges in place by scanning for the lowest rank; returns how many ids are left.
size_t Bpe::merge_short(int32_t* ids, size_t count, uint32_t* lengths) const {
  int32_t ranks[kShort], joined[kShort];  // of the pair (i, i + 1)
  const auto look = [&](size_t i) {
    const Entry* entry = i + 1 < count ? find(ids[i], ids[i + 1]) : nullptr;
    ranks[i] = entry ? entry->rank : kNoRank;
    joined[i] = entry ? entry->joined : -1;
  };
  for (size_t i = 0; i < count; ++i) look(i);
  while (count > 1) {
    const size_t best = static_cast<size_t>(std::min_element(ranks, ranks + count - 1) - ranks);
    if (ranks[best] == kNoRank) break;
    ids[best] = joined[best];
    --count;
    const size_t moved = count - best - 1;
    std::memmove(ids + best + 1, ids + best + 2, moved * sizeof(int32_t));
    std::memmove(ranks + best + 1, ranks + best + 2, moved * sizeof(int32_t));
    std::memmove(joined + best + 1, joined + best + 2, moved * sizeof(int32_t));
    if (lengths) {
      lengths[best] += lengths[best + 1];
      std::memmove(lengths + best + 1, lengths + best + 2, moved * sizeof(uint32_t));
    }
    look(best);
    if (best > 0) look(best - 1);
  }
  return count;
}

// The same for words of any length, in n log n: a list of symbols and a heap of the pairs that may be merged.
void Bpe::merge_long(std::vector<int32_t>& ids, size_t first, std::vector<uint32_t>* lengths,
                     double dropout) const {
  struct Candidate {
    int32_t rank;
    size_t place;
    int32_t left, right;  // what stood there when it was found
    bool operator>(const Candidate& o) const { return rank != o.rank ? rank > o.rank : place > o.place; }
  };
  static std::atomic<uint64_t> draws{0};
  const size_t count = ids.size() - first;
  int32_t* symbol = ids.data() + first;  // -1 once merged into the one before
  std::vector<size_t> next(count), previous(count);
  for (size_t i = 0; i < count; ++i) next[i] = i + 1, previous[i] = i - 1;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap;
  std::vector<Candidate> passed_over;
  const auto consider = [&](size_t i) {
    if (i >= count || next[i] >= count) return;
    const Entry* entry = find(symbol[i], symbol[next[i]]);
    if (entry) heap.push({entry->rank, i, symbol[i], symbol[next[i]]});
  };
  for (size_t i = 0; i + 1 < count; ++i) consider(i);
  while (!heap.empty()) {
    const Candidate top = heap.top();
    heap.pop();
    if (dropout > 0 && random_uniform({kDropoutSeed, 0}, draws++) < dropout) {
      passed_over.push_back(top);
      continue;
    }
    for (const Candidate& again : passed_over) heap.push(again);
    passed_over.clear();
    const size_t i = top.place;
    if (symbol[i] != top.left || next[i] >= count || symbol[next[i]] != top.right) continue;
    const size_t gone = next[i];
    symbol[i] = merges_[static_cast<size_t>(top.rank)].joined;
    symbol[gone] = -1;
    if (lengths) (*lengths)[i] += (*lengths)[gone];
    next[i] = next[gone];
    if (next[i] < count) previous[next[i]] = i;
    consider(i);
    consider(previous[i]);
  }
  size_t left = 0;
  for (size_t i = 0; i < count; ++i) {
    if (symbol[i] < 0) continue;
    if (lengths) (*lengths)[left] = (*lengths)[i];
    symbol[left++] = symbol[i];
  }
  ids.resize(first + left);
  if (lengths) lengths->resize(left);
}

}  // namespace plumb
