// The settings of a command. Each is a field of a struct, a long flag, and a key of the recipe (a TOML file),
// under one name: weight_decay is --weight-decay, and weight-decay = 0.1 in the recipe. A flag wins over the
// recipe, the recipe over what the field holds before apply().
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plumb/config.h"
#include "plumb/config_fields.h"

namespace plumb::cli {

// One value from its text. `where` names the flag, or the recipe's line and key: Error(usage) otherwise.
bool parse_boolean(const std::string& text, const std::string& where);
int64_t parse_integer(const std::string& text, const std::string& where);
uint64_t parse_unsigned(const std::string& text, const std::string& where);
double parse_number(const std::string& text, const std::string& where);
size_t parse_choice(const std::string& text, std::span<const char* const> names, const std::string& where);

std::string quote_toml(const std::string& text);
std::string number_toml(double value);

template <class T>
struct Unwrapped {
  using type = T;
};
template <class T>
struct Unwrapped<std::optional<T>> {
  using type = T;
};
template <class T>
struct Unwrapped<std::vector<T>> {
  using type = T;
};

class Settings {
 public:
  enum class Kind { boolean, integer, unsigned_integer, number, text };

  // `field` has to outlive this. Types: bool, int64_t, uint64_t, double, std::string, enums with EnumNames,
  // and std::optional (unset: not written to a recipe) and std::vector of them.
  template <class T>
  void add(const std::string& group, std::string name, T& field, const std::string& help);

  void add_flags(CLI::App& app);
  // Takes in a recipe. Error(usage) with `name` and the line for malformed TOML, for a key that is none of
  // the settings (with the nearest one) and for a value of the wrong type.
  void load(const std::string& toml, const std::string& name);

  std::vector<std::string> names() const;
  // From now on as if the flag --NAME had been given with this value. The name has to be one of names().
  void set(const std::string& name, const std::string& value);

  // What flag or recipe says about one setting, before apply(); "" if neither does.
  std::string value(const std::string& name) const;
  bool has_flag(const std::string& name) const;
  // The first flag of this group that was given; "" if none was.
  std::string flag_of_group(const std::string& group) const;

  // Assigns recipe and flags to the fields of settings for which `wanted` (all, if empty) holds.
  void apply(const std::function<bool(const std::string& group)>& wanted = {});

  std::string toml() const;  // a recipe of all fields as they are now

 private:
  struct Setting {
    std::string group, name, help, type;
    Kind kind = Kind::text;
    bool list = false;
    std::function<void(const std::vector<std::string>& values, const std::string& where)> assign;
    std::function<std::optional<std::string>()> toml;
    std::vector<std::string> flag;  // as given on the command line
    bool switched = false;          // a boolean flag's
    bool given = false;             // by set()
    CLI::Option* option = nullptr;
    std::vector<std::string> recipe;  // as given in the recipe
    std::string recipe_where;
    bool in_recipe = false;
  };
  void add(Setting setting);
  const Setting& find(const std::string& name) const;
  static bool on_command_line(const Setting& s) { return s.given || (s.option && s.option->count() > 0); }

  std::deque<Setting> settings_;  // CLI11 keeps pointers into it
};

template <class E>
std::span<const char* const> choices() {
  return {EnumNames<E>::names.data(), EnumNames<E>::names.size()};
}

template <class T>
T parse_value(const std::string& text, const std::string& where) {
  if constexpr (std::is_same_v<T, bool>) {
    return parse_boolean(text, where);
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(parse_choice(text, choices<T>(), where));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(parse_number(text, where));
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    return parse_unsigned(text, where);
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return parse_integer(text, where);
  } else {
    return text;
  }
}

template <class T>
std::string value_toml(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_enum_v<T>) {
    return quote_toml(enum_name(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    return number_toml(value);
  } else if constexpr (std::is_integral_v<T>) {
    const std::string text = std::to_string(value);
    return std::in_range<int64_t>(value) ? text : quote_toml(text);  // TOML's integers end at 2^63
  } else {
    return quote_toml(value);
  }
}

template <class T>
void Settings::add(const std::string& group, std::string name, T& field, const std::string& help) {
  using Value = typename Unwrapped<T>::type;
  constexpr bool list = std::is_same_v<T, std::vector<Value>>,
                 optional = std::is_same_v<T, std::optional<Value>>;
  Setting s{.group = group, .name = std::move(name), .help = help, .list = list};
  s.type = std::is_same_v<Value, std::string> ? "TEXT" : "N";
  if constexpr (std::is_same_v<Value, bool>) {
    s.kind = Kind::boolean;
  } else if constexpr (std::is_enum_v<Value>) {
    s.type.clear();
    for (const char* choice : choices<Value>()) s.type += (s.type.empty() ? "" : "|") + std::string(choice);
  } else if constexpr (std::is_floating_point_v<Value>) {
    s.kind = Kind::number;
    s.type = "X";
  } else if constexpr (std::is_integral_v<Value>) {
    s.kind = std::is_signed_v<Value> ? Kind::integer : Kind::unsigned_integer;
  }
  s.assign = [&field](const std::vector<std::string>& values, const std::string& where) {
    if constexpr (list) {
      field.clear();
      for (const std::string& v : values) field.push_back(parse_value<Value>(v, where));
    } else {
      field = parse_value<Value>(values.back(), where);
    }
  };
  s.toml = [&field]() -> std::optional<std::string> {
    if constexpr (list) {
      std::string text;
      for (const Value& v : field) text += (text.empty() ? "" : ", ") + value_toml<Value>(v);
      return "[" + text + "]";
    } else if constexpr (optional) {
      return field ? std::optional(value_toml<Value>(*field)) : std::nullopt;
    } else {
      return value_toml<Value>(field);
    }
  };
  add(std::move(s));
}

}  // namespace plumb::cli
