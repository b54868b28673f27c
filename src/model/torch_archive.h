// For tests: files as torch.save writes them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace plumb {

template <class T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// A zip archive of members as they are, in this order.
inline std::string zip_of(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string file, directory;
  for (const auto& [name, content] : members) {
    const auto size = static_cast<uint32_t>(content.size());
    const auto name_bytes = static_cast<uint16_t>(name.size());
    const std::string sizes = bytes_of<uint32_t>(size) + bytes_of<uint32_t>(size) + bytes_of(name_bytes);
    directory += "PK\1\2" + std::string(16, '\0') + sizes + std::string(12, '\0') +
                 bytes_of(static_cast<uint32_t>(file.size())) + name;
    file += "PK\3\4" + std::string(14, '\0') + sizes + std::string(2, '\0') + name + content;
  }
  const auto count = bytes_of(static_cast<uint16_t>(members.size()));
  return file + directory + "PK\5\6" + std::string(4, '\0') + count + count +
         bytes_of(static_cast<uint32_t>(directory.size())) + bytes_of(static_cast<uint32_t>(file.size())) +
         std::string(2, '\0');
}

// The opcodes of a pickle.
namespace pickled {

inline std::string text(const std::string& t) {
  return "X" + bytes_of(static_cast<uint32_t>(t.size())) + t;
}
inline std::string integer(int32_t value) {
  return "J" + bytes_of(value);
}
inline std::string integers(const std::vector<int32_t>& values) {
  std::string items;
  for (const int32_t v : values) items += integer(v);
  return "(" + items + "t";
}
inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}

// A view of the storage of `numel` numbers whose bytes are the member data/KEY.
struct View {
  std::string type, key;
  int32_t numel, offset;
  std::vector<int32_t> shape, strides;
};
inline std::string tensor(const View& v) {
  const std::string storage =
      "(" + text("storage") + global("torch", v.type) + text(v.key) + text("cpu") + integer(v.numel) + "tQ";
  return global("torch._utils", "_rebuild_tensor_v2") + "(" + storage + integer(v.offset) +
         integers(v.shape) + integers(v.strides) + "\x89" + global("collections", "OrderedDict") + ")RtR";
}

// Name and value in turn.
inline std::string dict(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string items;
  for (const auto& [name, value] : members) items += text(name) + value;
  return "\x80\2" + ("}(" + items) + "u.";
}

}  // namespace pickled
}  // namespace plumb
