#include "recipe.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>

#include "plumb/error.h"
#include "plumb/suggest.h"

namespace plumb::cli {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::usage, what);
}

// All of `text` as a T; the error if it is none, or beyond T.
template <class T>
std::errc parse_all(const std::string& text, T& value) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return rest == end ? error : std::errc::invalid_argument;
}

template <class T>
T parse_whole(const std::string& text, const std::string& where) {
  T value{};
  if (parse_all(text, value) == std::errc()) return value;
  const std::string digits = text.substr(text.starts_with('-'));
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos)
    refuse(fmt::format("{} is \"{}\": expected a whole number", where, text));
  using Limits = std::numeric_limits<T>;
  refuse(fmt::format("{} is {}: expected a whole number from {} to {}", where, text, Limits::min(),
                     Limits::max()));
}

const char* kind_words(Settings::Kind kind) {
  switch (kind) {
    case Settings::Kind::boolean:
      return "true or false";
    case Settings::Kind::integer:
    case Settings::Kind::unsigned_integer:
      return "a whole number";
    case Settings::Kind::number:
      return "a number";
    case Settings::Kind::text:
      return "a text in quotes";
  }
  return "";
}

// A scalar as the text that its flag would have; nothing if its type does not fit.
std::optional<std::string> scalar_text(const toml::node& node, Settings::Kind kind) {
  switch (kind) {
    case Settings::Kind::boolean:
      if (const auto* v = node.as_boolean()) return v->get() ? "true" : "false";
      return {};
    case Settings::Kind::number:
      if (const auto* v = node.as_floating_point()) return fmt::format("{}", v->get());
      if (const auto* v = node.as_integer()) return std::to_string(v->get());
      return {};
    case Settings::Kind::unsigned_integer:
      if (const auto* v = node.as_string()) return v->get();
      [[fallthrough]];
    case Settings::Kind::integer:
      if (const auto* v = node.as_integer()) return std::to_string(v->get());
      return {};
    case Settings::Kind::text:
      if (const auto* v = node.as_string()) return v->get();
      return {};
  }
  return {};
}

}  // namespace

bool parse_boolean(const std::string& text, const std::string& where) {
  if (text != "true" && text != "false")
    refuse(fmt::format("{} is \"{}\": expected true or false", where, text));
  return text == "true";
}

int64_t parse_integer(const std::string& text, const std::string& where) {
  return parse_whole<int64_t>(text, where);
}

uint64_t parse_unsigned(const std::string& text, const std::string& where) {
  return parse_whole<uint64_t>(text, where);
}

double parse_number(const std::string& text, const std::string& where) {
  double value = 0;
  const std::errc error = parse_all(text, value);
  if (error == std::errc::result_out_of_range)
    refuse(fmt::format("{} is {}: expected a number of a size from 1e-307 to 1e308, or 0", where, text));
  if (error != std::errc()) refuse(fmt::format("{} is \"{}\": expected a number", where, text));
  if (!std::isfinite(value)) refuse(fmt::format("{} is {}: expected a finite number", where, text));
  return value;
}

size_t parse_choice(const std::string& text, std::span<const char* const> names, const std::string& where) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  const std::vector<std::string> known(names.begin(), names.end());
  refuse(fmt::format("{} is \"{}\": expected {}{}", where, text, fmt::join(known, ", "),
                     did_you_mean(text, known)));
}

std::string quote_toml(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string number_toml(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

void Settings::add(Setting setting) {
  std::replace(setting.name.begin(), setting.name.end(), '_', '-');
  settings_.push_back(std::move(setting));
}

const Settings::Setting& Settings::find(const std::string& name) const {
  return *std::find_if(settings_.begin(), settings_.end(), [&](const Setting& s) { return s.name == name; });
}

void Settings::add_flags(CLI::App& app) {
  for (Setting& s : settings_) {
    if (s.kind == Kind::boolean) {
      s.option = app.add_flag(fmt::format("--{0},!--no-{0}", s.name), s.switched, s.help);
    } else {
      s.option = app.add_option("--" + s.name, s.flag, s.help)->type_name(s.type)->expected(1);
      s.option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->allow_extra_args(false);
    }
    s.option->group(s.group);
    if (const auto now = s.toml(); now && *now != "\"\"" && *now != "[]") s.option->default_str(*now);
  }
}

void Settings::load(const std::string& toml, const std::string& name) {
  toml::table table;
  try {
    table = toml::parse(toml, name);
  } catch (const toml::parse_error& error) {
    refuse(fmt::format("{} line {}: {}", name, error.source().begin.line, error.description()));
  }
  const std::vector<std::string> known = names();
  for (const auto& [key_node, node] : table) {
    const std::string key(key_node.str());
    const std::string where = fmt::format("{} line {}: {}", name, key_node.source().begin.line, key);
    const auto s =
        std::find_if(settings_.begin(), settings_.end(), [&](const Setting& x) { return x.name == key; });
    if (s == settings_.end()) refuse(where + " is not a setting" + did_you_mean(key, known));
    s->recipe.clear();
    s->recipe_where = where;
    s->in_recipe = true;
    const auto take = [&, &kind = s->kind, &to = s->recipe](const toml::node& value) {
      const std::optional<std::string> text = scalar_text(value, kind);
      if (!text) {
        std::ostringstream got;
        got << value.type();
        refuse(fmt::format("{} is of type {}: expected {}", where, got.str(), kind_words(kind)));
      }
      to.push_back(*text);
    };
    if (const toml::array* list = node.as_array(); list && s->list) {
      for (const toml::node& value : *list) take(value);
    } else {
      take(node);
    }
  }
}

std::vector<std::string> Settings::names() const {
  std::vector<std::string> names;
  for (const Setting& s : settings_) names.push_back(s.name);
  return names;
}

void Settings::set(const std::string& name, const std::string& value) {
  for (Setting& s : settings_) {
    if (s.name != name) continue;
    s.given = true;
    s.flag = {value};
    if (s.kind == Kind::boolean) s.switched = parse_boolean(value, "--" + name);
  }
}

std::string Settings::value(const std::string& name) const {
  const Setting& s = find(name);
  if (on_command_line(s)) return s.kind == Kind::boolean ? (s.switched ? "true" : "false") : s.flag.back();
  return s.in_recipe && !s.recipe.empty() ? s.recipe.back() : "";
}

bool Settings::has_flag(const std::string& name) const {
  return on_command_line(find(name));
}

std::string Settings::flag_of_group(const std::string& group) const {
  for (const Setting& s : settings_) {
    if (s.group == group && on_command_line(s)) return "--" + s.name;
  }
  return "";
}

void Settings::apply(const std::function<bool(const std::string& group)>& wanted) {
  for (const Setting& s : settings_) {
    if (wanted && !wanted(s.group)) continue;
    if (on_command_line(s)) {
      if (s.kind == Kind::boolean) {
        s.assign({s.switched ? "true" : "false"}, "--" + s.name);
      } else {
        s.assign(s.flag, "--" + s.name);
      }
    } else if (s.in_recipe) {
      s.assign(s.recipe, s.recipe_where);
    }
  }
}

std::string Settings::toml() const {
  std::string text, group;
  for (const Setting& s : settings_) {
    const std::optional<std::string> value = s.toml();
    if (!value) continue;
    if (s.group != group) text += fmt::format("{}# {}\n", text.empty() ? "" : "\n", group = s.group);
    text += fmt::format("{} = {}\n", s.name, *value);
  }
  return text;
}

}  // namespace plumb::cli
