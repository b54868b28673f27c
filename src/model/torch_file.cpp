#include "model/torch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

#include "base/json.h"
#include "base/zip.h"
#include "model/pickle.h"
#include "plumb/error.h"

namespace plumb {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kParameter = "torch._utils._rebuild_parameter";
constexpr std::string_view kGlobals[] = {kTensor,
                                         kParameter,
                                         "torch.DoubleStorage",
                                         "torch.FloatStorage",
                                         "torch.HalfStorage",
                                         "torch.BFloat16Storage",
                                         "torch.LongStorage",
                                         "torch.IntStorage",
                                         "torch.ByteStorage",
                                         "torch.BoolStorage"};
constexpr std::pair<std::string_view, DType> kStorages[] = {
    {"torch.DoubleStorage", DType::f64}, {"torch.FloatStorage", DType::f32},
    {"torch.HalfStorage", DType::f16},   {"torch.BFloat16Storage", DType::bf16},
    {"torch.LongStorage", DType::i64},   {"torch.IntStorage", DType::i32},
    {"torch.ByteStorage", DType::u8},    {"torch.BoolStorage", DType::u8}};

struct Storage {
  DType dtype;
  uint64_t begin, numel;
};

// Row-major as Tensors are; a dim of 1 has no stride that matters.
bool row_major(const Shape& shape, const std::vector<int64_t>& strides) {
  int64_t expected = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

// One archive with its pickle: from values to tensors.
class Reader {
 public:
  explicit Reader(const MappedFile& file) : file_(file), members_(read_zip(file)) {}

  std::vector<TensorFile::Entry> read() {
    const ZipMember& pickle = find_pickle();
    check_byte_order();
    pickle_ = read_pickle(bytes(pickle), kGlobals, file_.path());
    const PickleValue& root = value(pickle_.root);
    if (root.kind != Kind::dict) fail("the pickle is not of a dict from names to tensors");
    std::vector<TensorFile::Entry> entries;
    entries.reserve(root.items.size() / 2);
    for (size_t i = 0; i < root.items.size(); i += 2) {
      const PickleValue& name = value(root.items[i]);
      if (name.kind != Kind::text) fail("the pickle has a tensor under something that is not a name");
      tensor_ = name.text;
      entries.push_back(read_tensor(value(root.items[i + 1])));
    }
    sort_by_name(entries);
    return entries;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::file, fmt::format("{}: {}", file_.path(), what));
  }
  [[noreturn]] void fail_tensor(const std::string& what) const {
    fail(fmt::format("tensor {} {}", quote_json(tensor_), what));
  }

  std::string_view bytes(const ZipMember& member) const {
    return file_.bytes().substr(member.begin, member.end - member.begin);
  }

  const ZipMember* find(const std::string& name) const {
    const auto it = std::lower_bound(members_.begin(), members_.end(), name,
                                     [](const ZipMember& m, const std::string& n) { return m.name < n; });
    return it != members_.end() && it->name == name ? &*it : nullptr;
  }

  // NAME/data.pkl, of the one NAME that the archive's members begin with.
  const ZipMember& find_pickle() {
    if (members_.empty()) fail("the zip archive is empty");
    folder_ = members_[0].name.substr(0, members_[0].name.find('/') + 1);
    for (const ZipMember& m : members_) {
      if (folder_.empty() || !m.name.starts_with(folder_))
        fail(fmt::format("{} lies outside the one folder that a file of PyTorch has", quote_json(m.name)));
    }
    if (find(folder_ + "constants.pkl")) {
      throw Error(ErrorKind::unsupported,
                  fmt::format("{} is a TorchScript program; plumb reads a state_dict", file_.path()));
    }
    const ZipMember* pickle = find(folder_ + "data.pkl");
    if (!pickle)
      fail(fmt::format("the zip archive holds no {}, as a file of PyTorch does",
                       quote_json(folder_ + "data.pkl")));
    return *pickle;
  }

  void check_byte_order() const {
    const ZipMember* order = find(folder_ + "byteorder");
    if (order && bytes(*order) != "little") {
      throw Error(ErrorKind::unsupported, fmt::format("{} is in the byte order {}; plumb reads little",
                                                      file_.path(), quote_json(bytes(*order).substr(0, 20))));
    }
  }

  const PickleValue& value(uint32_t place) const { return pickle_.values[place]; }

  // The arguments of a call of `name`; empty: the value is none.
  std::span<const uint32_t> arguments(const PickleValue& v, std::string_view name) const {
    if (v.kind != Kind::call || value(v.items[0]).text != name) return {};
    return value(v.items[1]).items;
  }

  TensorFile::Entry read_tensor(const PickleValue& given) const {
    const auto parameter = arguments(given, kParameter);
    const PickleValue& v = parameter.empty() ? given : value(parameter[0]);
    const auto parts = arguments(v, kTensor);  // storage, offset, shape, strides, ...
    if (parts.size() < 4) fail_tensor("is something else than a tensor");
    const Storage storage = read_storage(value(parts[0]));
    const int64_t offset = whole(value(parts[1]), "offset");
    const Shape shape(whole_numbers(value(parts[2]), "shape"));
    std::vector<int64_t> strides = whole_numbers(value(parts[3]), "strides");
    if (strides.size() != shape.dims().size()) fail_tensor("has another number of strides than of dims");
    const uint64_t span = check_view(storage, static_cast<uint64_t>(offset), shape, strides);
    if (span == 0 || row_major(shape, strides)) strides.clear();
    const uint64_t begin = storage.begin + offset * dtype_size(storage.dtype);
    return {.name = std::string(tensor_),
            .dtype = storage.dtype,
            .shape = shape,
            .begin = begin,
            .end = begin + span * dtype_size(storage.dtype),
            .strides = std::move(strides)};
  }

  int64_t whole(const PickleValue& v, const char* what) const {
    if (v.kind != Kind::integer || v.integer < 0)
      fail_tensor(fmt::format("has something else than whole numbers, 0 or more, as its {}", what));
    return v.integer;
  }

  std::vector<int64_t> whole_numbers(const PickleValue& v, const char* what) const {
    constexpr size_t kMostDims = 64;
    if (v.kind != Kind::tuple || v.items.size() > kMostDims) fail_tensor(fmt::format("has no {}", what));
    std::vector<int64_t> numbers;
    numbers.reserve(v.items.size());
    for (const uint32_t item : v.items) numbers.push_back(whole(value(item), what));
    return numbers;
  }

  // The persistent id ("storage", type, key, device, numbers).
  Storage read_storage(const PickleValue& v) const {
    if (v.kind != Kind::persistent) fail_tensor("has no storage");
    const PickleValue& id = value(v.items[0]);
    const bool five = id.kind == Kind::tuple && id.items.size() == 5 &&
                      value(id.items[0]).text == "storage" && value(id.items[1]).kind == Kind::global &&
                      value(id.items[2]).kind == Kind::text;
    if (!five) fail_tensor("has no storage");
    const auto type = std::find_if(std::begin(kStorages), std::end(kStorages),
                                   [&](const auto& known) { return known.first == value(id.items[1]).text; });
    if (type == std::end(kStorages)) fail_tensor("has a storage of no type");
    const std::string_view key = value(id.items[2]).text;
    const ZipMember* member = find(fmt::format("{}data/{}", folder_, key));
    if (!member) fail_tensor(fmt::format("is in the storage {}, which the file lacks", quote_json(key)));
    const auto numel = static_cast<uint64_t>(whole(value(id.items[4]), "storage's size"));
    uint64_t expected = 0;
    const bool fits = !__builtin_mul_overflow(numel, dtype_size(type->second), &expected);
    if (!fits || expected != member->end - member->begin) {
      fail_tensor(fmt::format("is in the storage {} of {} {} numbers, which has {} bytes", quote_json(key),
                              numel, dtype_name(type->second), member->end - member->begin));
    }
    return {type->second, member->begin, numel};
  }

  // From the view's first number to its last one; 0 if it has none.
  uint64_t check_view(const Storage& storage, uint64_t offset, const Shape& shape,
                      const std::vector<int64_t>& strides) const {
    uint64_t last = offset;
    int64_t numel = 1;
    bool fits = offset <= storage.numel;
    const auto& dims = shape.dims();
    const bool none = std::find(dims.begin(), dims.end(), 0) != dims.end();
    for (size_t i = 0; i < dims.size(); ++i) {
      uint64_t step = 0;
      fits = fits && !__builtin_mul_overflow(numel, dims[i], &numel);
      if (none) continue;
      fits = fits && !__builtin_mul_overflow(dims[i] - 1, strides[i], &step) &&
             !__builtin_add_overflow(last, step, &last);
    }
    if (!fits || (!none && last >= storage.numel)) {
      fail_tensor(
          fmt::format("of shape {} reaches beyond its storage of {} numbers", shape.str(), storage.numel));
    }
    if (none) return 0;
    if (static_cast<uint64_t>(numel) > storage.numel) {
      throw Error(ErrorKind::unsupported,
                  fmt::format("{}: tensor {} of shape {} repeats numbers of its storage, which has {}",
                              file_.path(), quote_json(tensor_), shape.str(), storage.numel));
    }
    return last - offset + 1;
  }

  void sort_by_name(std::vector<TensorFile::Entry>& entries) {
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    for (size_t i = 1; i < entries.size(); ++i) {
      if (entries[i].name != entries[i - 1].name) continue;
      tensor_ = entries[i].name;
      fail_tensor("is there twice");
    }
  }

  const MappedFile& file_;
  std::vector<ZipMember> members_;  // sorted by name
  std::string folder_;              // of the archive, with its slash
  Pickle pickle_;
  std::string_view tensor_;  // that is being read
};

}  // namespace

TorchFile::TorchFile(const std::string& path) : TensorFile(path) {
  if (file_.bytes().starts_with("\x80")) {
    throw Error(
        ErrorKind::unsupported,
        fmt::format("{} is of PyTorch before 1.6; load it with torch.load and save it with torch.save, or as "
                    "safetensors",
                    path));
  }
  if (!file_.bytes().starts_with("PK"))
    throw Error(ErrorKind::file, path + " is not a file of PyTorch: it does not begin as a zip archive does");
  entries_ = Reader(file_).read();
}

}  // namespace plumb
