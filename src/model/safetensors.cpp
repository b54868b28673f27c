#include "model/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "kernels/convert.h"
#include "plumb/error.h"

namespace plumb {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kDataAlignment = 64;

struct StoredDType {
  std::string_view name;
  DType dtype;
};
constexpr StoredDType kStored[] = {{"F64", DType::f64},   {"F32", DType::f32}, {"F16", DType::f16},
                                   {"BF16", DType::bf16}, {"I64", DType::i64}, {"I32", DType::i32},
                                   {"U8", DType::u8},     {"BOOL", DType::u8}};

std::string_view stored_name(DType dtype) {
  for (const StoredDType& s : kStored) {
    if (s.dtype == dtype) return s.name;
  }
  return "?";
}

// One tensor of a header, with the file's name for messages.
class EntryReader {
 public:
  EntryReader(const std::string& path, const std::string& name, const Json& fields, uint64_t data_bytes)
      : path_(path), name_(name), fields_(fields), data_bytes_(data_bytes) {}

  SafetensorsFile::Entry read(uint64_t data) const {
    if (!fields_.is_object()) fail("is described by something that is not an object");
    SafetensorsFile::Entry entry{.name = name_, .dtype = dtype(), .shape = shape()};
    const auto [begin, end] = range();
    const uint64_t bytes = expected_bytes(entry);
    if (bytes != end - begin) {
      fail(fmt::format("is {} {}, which takes {} bytes, but its data_offsets name {}",
                       fields_.at("dtype").get<std::string>(), entry.shape.str(), bytes, end - begin));
    }
    entry.begin = data + begin;
    entry.end = data + end;
    return entry;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::file, fmt::format("{}: tensor {} {}", path_, quote_json(name_), what));
  }

  const Json& field(const char* key) const {
    const auto it = fields_.find(key);
    if (it == fields_.end()) fail(fmt::format("has no {}", key));
    return *it;
  }

  DType dtype() const {
    const Json& j = field("dtype");
    if (!j.is_string()) fail("has a dtype that is not a name");
    const std::string& name = j.get_ref<const std::string&>();
    for (const StoredDType& s : kStored) {
      if (s.name == name) return s.dtype;
    }
    throw Error(
        ErrorKind::unsupported,
        fmt::format("{}: tensor {} has the dtype {}; plumb reads F64, F32, F16, BF16, I64, I32, U8 and "
                    "BOOL",
                    path_, quote_json(name_), quote_json(name)));
  }

  // A whole number, 0 or more.
  uint64_t whole(const Json& j, const char* what) const {
    if (!j.is_number_unsigned()) fail(fmt::format("has {} in {}, expected a whole number", j.dump(), what));
    return j.get<uint64_t>();
  }

  Shape shape() const {
    const Json& j = field("shape");
    if (!j.is_array()) fail("has a shape that is not a list");
    std::vector<int64_t> dims;
    for (const Json& item : j) {
      const uint64_t dim = whole(item, "its shape");
      if (dim > INT64_MAX) fail(fmt::format("has the dim {}, more than any file holds", dim));
      dims.push_back(static_cast<int64_t>(dim));
    }
    return Shape(std::move(dims));
  }

  std::pair<uint64_t, uint64_t> range() const {
    const Json& j = field("data_offsets");
    if (!j.is_array() || j.size() != 2) fail("has data_offsets that are not two numbers");
    const uint64_t begin = whole(j[0], "its data_offsets"), end = whole(j[1], "its data_offsets");
    if (begin > end) fail(fmt::format("has data_offsets that run backwards, {} to {}", begin, end));
    if (end > data_bytes_) {
      fail(fmt::format("ends at byte {} of the data, of which the file has {}: is it cut short?", end,
                       data_bytes_));
    }
    return {begin, end};
  }

  uint64_t expected_bytes(const SafetensorsFile::Entry& entry) const {
    uint64_t bytes = dtype_size(entry.dtype);
    for (const int64_t dim : entry.shape.dims()) {
      if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes)) {
        fail(fmt::format("has the shape {}, whose product is beyond 64 bits", entry.shape.str()));
      }
    }
    return bytes;
  }

  const std::string& path_;
  const std::string& name_;
  const Json& fields_;
  uint64_t data_bytes_;
};

std::map<std::string, std::string> read_metadata(const std::string& path, const Json& j) {
  std::map<std::string, std::string> metadata;
  if (!j.is_object()) throw Error(ErrorKind::file, path + ": __metadata__ is not an object");
  for (const auto& [key, value] : j.items()) {
    if (!value.is_string()) {
      throw Error(ErrorKind::file, fmt::format("{}: __metadata__ {} is not a text", path, quote_json(key)));
    }
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// Every byte of the data belongs to exactly one tensor.
void check_ranges(const std::string& path, const std::vector<SafetensorsFile::Entry>& entries, uint64_t data,
                  uint64_t size) {
  std::vector<const SafetensorsFile::Entry*> by_place;
  by_place.reserve(entries.size());
  for (const auto& entry : entries) by_place.push_back(&entry);
  std::sort(by_place.begin(), by_place.end(),
            [](auto a, auto b) { return std::pair(a->begin, a->end) < std::pair(b->begin, b->end); });
  uint64_t at = data;
  const SafetensorsFile::Entry* before = nullptr;
  for (const auto* entry : by_place) {
    if (entry->begin < at) {
      throw Error(ErrorKind::file, fmt::format("{}: tensors {} and {} share bytes", path,
                                               quote_json(before->name), quote_json(entry->name)));
    }
    if (entry->begin > at) {
      throw Error(ErrorKind::file, fmt::format("{}: {} bytes before tensor {} belong to no tensor", path,
                                               entry->begin - at, quote_json(entry->name)));
    }
    at = entry->end;
    before = entry;
  }
  if (at != size) {
    throw Error(ErrorKind::file, fmt::format("{}: {} bytes at the end belong to no tensor", path, size - at));
  }
}

// Numbers converted on their way into a file, a piece at a time.
class Converter {
 public:
  Converter(AtomicFile& file, const SavedTensor& tensor) : file_(file), tensor_(tensor) {}

  void write() {
    const Tensor& v = tensor_.value;
    if (v.dtype() == tensor_.stored) {
      file_.write(v.raw(), v.bytes());
      return;
    }
    constexpr int64_t kPiece = 1 << 16;
    const char* from = static_cast<const char*>(v.raw());
    std::vector<float> wide(kPiece);
    for (int64_t first = 0; first < v.numel(); first += kPiece) {
      const int64_t count = std::min(kPiece, v.numel() - first);
      widen({.src = from + first * dtype_size(v.dtype()),
             .dtype = v.dtype(),
             .rows = 1,
             .width = count,
             .ld = count,
             .dst = wide.data()});
      narrow(wide.data(), count);
    }
  }

 private:
  void narrow(const float* values, int64_t count) {
    if (tensor_.stored == DType::f32) {
      file_.write(values, count * sizeof(float));
      return;
    }
    std::vector<uint16_t> bits(count);
    for (int64_t i = 0; i < count; ++i) {
      const bool half = tensor_.stored == DType::f16;
      bits[i] = half ? to_f16(values[i]).bits : to_bf16(values[i]).bits;
      const float back = half ? to_float(Float16{bits[i]}) : to_float(BFloat16{bits[i]});
      if (std::isfinite(values[i]) && !std::isfinite(back)) {
        throw Error(ErrorKind::numeric,
                    fmt::format("tensor {} holds {}, beyond the range of {} that it is to be stored in",
                                quote_json(tensor_.name), values[i], dtype_name(tensor_.stored)));
      }
    }
    file_.write(bits.data(), count * sizeof(uint16_t));
  }

  AtomicFile& file_;
  const SavedTensor& tensor_;
};

bool is_float(DType t) {
  return t == DType::f32 || t == DType::f16 || t == DType::bf16;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : TensorFile(path) {
  const uint64_t size = file_.size();
  if (size < kLengthBytes) {
    throw Error(ErrorKind::file, fmt::format("{} has {} bytes, too few for a safetensors file", path, size));
  }
  uint64_t length = 0;
  std::memcpy(&length, file_.data(), kLengthBytes);
  if (length == 0) throw Error(ErrorKind::file, path + ": the safetensors header has no bytes");
  if (length > size - kLengthBytes) {
    throw Error(ErrorKind::file,
                fmt::format("{}: the safetensors header would have {} bytes, but the file has {}: is "
                            "it cut short, or of another format?",
                            path, length, size));
  }
  if (length > kMaxSafetensorsHeader) {
    throw Error(ErrorKind::file,
                fmt::format("{}: the safetensors header has {} bytes, more than the {} that the "
                            "format allows",
                            path, length, kMaxSafetensorsHeader));
  }
  read_header({file_.data() + kLengthBytes, length}, kLengthBytes + length);
}

void SafetensorsFile::read_header(std::string_view header, uint64_t data) {
  if (header[0] != '{') {
    throw Error(ErrorKind::file, path() + ": the safetensors header does not begin with \"{\"");
  }
  const Json j = parse_json(header, path() + ": safetensors header");
  entries_.reserve(j.size());
  for (const auto& [name, fields] : j.items()) {
    if (name == "__metadata__") {
      metadata_ = read_metadata(path(), fields);
    } else {
      entries_.push_back(EntryReader(path(), name, fields, file_.size() - data).read(data));
    }
  }
  check_ranges(path(), entries_, data, file_.size());
}

void write_safetensors(const std::string& path, std::vector<SavedTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  // Wide types first, so that every tensor is aligned for its type.
  std::stable_sort(tensors.begin(), tensors.end(), [](const SavedTensor& a, const SavedTensor& b) {
    return dtype_size(a.stored) > dtype_size(b.stored);
  });
  OrderedJson::object_t header;
  if (!metadata.empty()) header.emplace_back("__metadata__", metadata);
  uint64_t at = 0;
  for (const SavedTensor& t : tensors) {
    PLUMB_CHECK(t.value.dtype() == t.stored || (is_float(t.value.dtype()) && is_float(t.stored)), "{} as {}",
                dtype_name(t.value.dtype()), dtype_name(t.stored));
    const uint64_t end = at + static_cast<uint64_t>(t.value.numel()) * dtype_size(t.stored);
    header.emplace_back(t.name, OrderedJson{{"dtype", stored_name(t.stored)},
                                            {"shape", t.value.shape().dims()},
                                            {"data_offsets", {at, end}}});
    at = end;
  }
  std::string text = dump_json(OrderedJson(std::move(header)), -1);
  text.resize(
      (text.size() + kLengthBytes + kDataAlignment - 1) / kDataAlignment * kDataAlignment - kLengthBytes,
      ' ');
  const uint64_t length = text.size();
  AtomicFile file(path);
  file.write(&length, kLengthBytes);
  file.write(text);
  for (const SavedTensor& t : tensors) Converter(file, t).write();
  file.commit();
}

}  // namespace plumb
