#include "text/byte_trie.h"

namespace plumb {

size_t ByteTrie::slot(uint64_t key) const {
  const size_t mask = edges_.size() - 1;
  uint64_t hash = key * 0x9e3779b97f4a7c15ull;
  hash ^= hash >> 32;
  size_t i = hash & mask;
  while (edges_[i].key != kFree && edges_[i].key != key) i = (i + 1) & mask;
  return i;
}

void ByteTrie::grow() {
  std::vector<Edge> old(edges_.empty() ? 64 : edges_.size() * 2);
  old.swap(edges_);
  for (const Edge& edge : old) {
    if (edge.key != kFree) edges_[slot(edge.key)] = edge;
  }
}

void ByteTrie::add(std::string_view text, int32_t value) {
  uint32_t node = kRoot;
  for (const char c : text) {
    if (2 * values_.size() > edges_.size()) grow();
    const uint64_t key = uint64_t{node} << 8 | static_cast<unsigned char>(c);
    Edge& edge = edges_[slot(key)];
    if (edge.key == kFree) {
      edge = {key, static_cast<uint32_t>(values_.size())};
      values_.push_back(-1);
    }
    node = edge.child;
  }
  values_[node] = value;
}

uint32_t ByteTrie::step(uint32_t node, unsigned char byte) const {
  if (edges_.empty()) return kNone;
  const Edge& edge = edges_[slot(uint64_t{node} << 8 | byte)];
  return edge.key == kFree ? kNone : edge.child;
}

uint32_t ByteTrie::walk(uint32_t node, std::string_view text) const {
  for (const char c : text) {
    if (node == kNone) break;
    node = step(node, static_cast<unsigned char>(c));
  }
  return node;
}

ByteTrie::Found ByteTrie::longest(std::string_view text, uint32_t from) const {
  Found found;
  uint32_t node = from;
  for (size_t i = 0; i < text.size() && node != kNone; ++i) {
    node = step(node, static_cast<unsigned char>(text[i]));
    if (node != kNone && values_[node] >= 0) found = {i + 1, values_[node]};
  }
  return found;
}

}  // namespace plumb
