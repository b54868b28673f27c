// The folders of recorded models, as parameters of tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "base/file.h"
#include "model/families.h"
#include "plumb/error.h"
#include "support/files.h"

namespace plumb::test {

// Of the recorded folders those that have to load. Any other one is compared or refused by name.
constexpr const char* kRequired[] = {"gpt2",
                                     "gpt2-oldconfig",
                                     "llama",
                                     "llama-oldconfig",
                                     "llama-linear",
                                     "llama-headdim",
                                     "llama-dynamic",
                                     "llama-llama3",
                                     "llama-yarn",
                                     "mistral",
                                     "ministral",
                                     "ministral3",
                                     "arcee",
                                     "qwen2",
                                     "qwen2-oldconfig",
                                     "qwen2-window",
                                     "qwen3",
                                     "olmo",
                                     "olmo2",
                                     "exaone4",
                                     "smollm3",
                                     "seed_oss",
                                     "hunyuan_v1_dense",
                                     "granite",
                                     "gemma",
                                     "gemma2",
                                     "gemma3_text",
                                     "ernie4_5",
                                     "helium",
                                     "cohere",
                                     "cohere2",
                                     "phi3",
                                     "phi3-longrope",
                                     "glm",
                                     "glm4",
                                     "bert",
                                     "bert-oldconfig",
                                     "marian",
                                     "marian-oldconfig",
                                     "mixtral",
                                     "qwen2_moe",
                                     "qwen3_moe",
                                     "olmoe",
                                     "deepseek_v2",
                                     "gpt_bigcode",
                                     "gpt_neo",
                                     "gptj",
                                     "gpt_neox",
                                     "gpt_neox-serial",
                                     "opt",
                                     "opt-postnorm",
                                     "bloom",
                                     "mpt",
                                     "falcon",
                                     "falcon-alibi",
                                     "falcon-new",
                                     "phi",
                                     "stablelm",
                                     "starcoder2",
                                     "persimmon",
                                     "nemotron",
                                     "stablelm-qknorm",
                                     "deepseek_v2-group",
                                     "deepseek_v3",
                                     "granitemoe",
                                     "gpt_oss",
                                     "llama-seqcls"};

struct Folders {
  std::set<std::string> compared, refused;
};

// Every folder whose config is not refused as unsupported is compared, whatever else may be wrong with it.
inline Folders sort_folders() {
  Folders folders;
  if (!std::getenv("PLUMB_GOLDEN")) folders.compared.insert(std::begin(kRequired), std::end(kRequired));
  if (!std::filesystem::is_directory(golden_path())) return folders;
  for (const auto& entry : std::filesystem::directory_iterator(golden_path())) {
    const auto config = entry.path() / "config.json";
    const std::string name = entry.path().filename().string();
    if (!std::filesystem::exists(config) || folders.compared.contains(name)) continue;
    try {
      read_config(read_file(config), config.string());
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::unsupported) {
        folders.refused.insert(name);
        continue;
      }
    }
    folders.compared.insert(name);
  }
  return folders;
}

inline const Folders& golden_folders() {
  static const Folders sorted = sort_folders();
  return sorted;
}

inline std::string folder_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

}  // namespace plumb::test
