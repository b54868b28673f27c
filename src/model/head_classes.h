// The classes of published models that end in a head over classes, as config.json's `architectures` names
// them, and what their configs say of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/json_fields.h"
#include "plumb/config.h"

namespace plumb {

struct HeadClass {
  Head head = Head::language_model;
  std::string name;           // of the class
  std::string_view module;    // of the head, in files
  std::string_view prefix{};  // of the base model's tensors, where it is not the family's
};

// Of models with that model_type; empty where there are none.
std::vector<HeadClass> head_classes(std::string_view model_type);
// The one that a config's head is of, with an empty name where there is none.
HeadClass head_class(const ModelConfig& config);

// The head that `architectures` asks for, with its labels, over what a family's reader made; nothing where
// that is no head over classes. Throws Error(config).
void read_head(const JsonFields& fields, ModelConfig& config);
void write_head(const ModelConfig& config, JsonObject out);

}  // namespace plumb
