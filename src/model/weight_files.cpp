#include "model/weight_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "model/json_fields.h"
#include "model/torch_file.h"
#include "plumb/error.h"

namespace plumb {
namespace {

// How a folder may hold weights: in one file, or in shards that an index lists. The first that is there is
// read.
struct Format {
  const char *file, *index;
  TensorFile (*open)(const std::string& path);
};
constexpr Format kFormats[] = {{"model.safetensors", "model.safetensors.index.json",
                                [](const std::string& path) -> TensorFile { return SafetensorsFile(path); }},
                               {"pytorch_model.bin", "pytorch_model.bin.index.json",
                                [](const std::string& path) -> TensorFile { return TorchFile(path); }}};

// The shards, checked against the index that names them.
std::vector<TensorFile> open_shards(const std::string& folder, const Format& format) {
  const std::string index = join_path(folder, format.index);
  const JsonFields fields(parse_json_file(index), index);
  std::map<std::string, std::set<std::string>> tensors_of;
  const Json& map = fields.raw("weight_map");
  if (!map.is_object()) throw Error(ErrorKind::file, index + ": weight_map is not an object");
  for (const auto& [tensor, file] : map.items()) {
    if (!file.is_string()) {
      throw Error(ErrorKind::file,
                  fmt::format("{}: {} is in {}, which is no file name", index, tensor, file.dump()));
    }
    const std::string name = file.get<std::string>();
    if (name.empty() || name.find('/') != name.npos) {
      throw Error(ErrorKind::file, fmt::format("{}: {} is in \"{}\", which is not a file of this folder",
                                               index, tensor, name));
    }
    tensors_of[name].insert(tensor);
  }
  if (tensors_of.empty()) throw Error(ErrorKind::file, index + ": weight_map names no tensor");
  std::vector<TensorFile> shards;
  shards.reserve(tensors_of.size());
  for (const auto& [name, tensors] : tensors_of) {
    shards.push_back(format.open(join_path(folder, name)));
    for (const std::string& tensor : tensors) {
      if (!shards.back().find(tensor)) {
        throw Error(ErrorKind::file, fmt::format("{} lacks the tensor {}, which {} says it holds",
                                                 shards.back().path(), quote_json(tensor), index));
      }
    }
  }
  return shards;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// What write_weights() writes, for any number of shards.
bool is_written_name(std::string name) {
  if (name == kFormats[0].file || name == kFormats[0].index) return true;
  std::replace_if(name.begin(), name.end(), is_digit, '#');
  return name == "model-#####-of-#####.safetensors";
}

uint64_t stored_bytes(const SavedTensor& t) {
  return static_cast<uint64_t>(t.value.numel()) * dtype_size(t.stored);
}

std::vector<std::vector<SavedTensor>> into_shards(std::vector<SavedTensor> tensors, uint64_t shard_bytes) {
  std::vector<std::vector<SavedTensor>> shards(1);
  uint64_t bytes = 0;
  for (SavedTensor& t : tensors) {
    const uint64_t own = stored_bytes(t);
    if (!shards.back().empty() && own > shard_bytes - std::min(bytes, shard_bytes)) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += own;
    shards.back().push_back(std::move(t));
  }
  return shards;
}

}  // namespace

std::vector<TensorFile> open_weights(const std::string& folder) {
  for (const Format& format : kFormats) {
    const std::string file = join_path(folder, format.file);
    if (path_exists(file)) return {format.open(file)};
    if (path_exists(join_path(folder, format.index))) return open_shards(folder, format);
  }
  throw Error(
      ErrorKind::file,
      fmt::format("{} holds neither {} nor {}, nor an index of either's shards; files of other formats have "
                  "to be converted to safetensors first",
                  folder, kFormats[0].file, kFormats[1].file));
}

void write_weights(const std::string& folder, std::vector<SavedTensor> tensors, uint64_t shard_bytes) {
  std::vector<std::vector<SavedTensor>> shards = into_shards(std::move(tensors), shard_bytes);
  std::set<std::string> written;
  OrderedJson::object_t places;
  uint64_t total = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shards.size() == 1
                                 ? kFormats[0].file
                                 : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    for (const SavedTensor& t : shards[i]) {
      places.emplace_back(t.name, name);
      total += stored_bytes(t);
    }
    write_safetensors(join_path(folder, name), std::move(shards[i]));
    written.insert(name);
  }
  if (shards.size() > 1) {
    const OrderedJson index{{"metadata", {{"total_size", total}}},
                            {"weight_map", OrderedJson(std::move(places))}};
    write_file_atomically(join_path(folder, kFormats[0].index), dump_json(index) + "\n");
    written.insert(kFormats[0].index);
  }
  for (const std::string& name : list_folder(folder)) {
    if (is_written_name(name) && !written.contains(name)) remove_file(join_path(folder, name));
  }
}

}  // namespace plumb
