#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "plumb/error.h"

namespace plumb {
namespace {

constexpr size_t kMostNesting = 64;

// Builds the value while reading, which is where a repeated key and the nesting are still known.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view text, const std::string& name, const JsonRows* rows)
      : text_(text), name_(name), rows_(rows) {}
  Json root;

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return shut(); }
  bool end_array() override { return shut(); }

  bool key(string_t& key) override {
    if (in_rows()) {
      row_key_ = std::move(key);
      return true;
    }
    auto& object = stack_.back()->get_ref<Json::object_t&>();
    const auto [place, fresh] = object.emplace(std::move(key), nullptr);
    if (!fresh)
      throw Error(ErrorKind::file, fmt::format("{}: the key \"{}\" is given twice", name_, place->first));
    slot_ = &place->second;
    slot_key_ = &place->first;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const Json::exception& error) override {
    const std::string_view before = text_.substr(0, position > 0 ? position - 1 : 0);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t column = before.size() - (before.rfind('\n') + 1) + 1;
    // The library's text repeats the position in its own words before the last colon-separated reason.
    std::string reason = error.what();
    if (const size_t at = reason.find("syntax error"); at != std::string::npos) reason = reason.substr(at);
    if (const size_t at = reason.find("; last read"); at != std::string::npos) reason.resize(at);
    for (char& c : reason) c = c == '\n' ? ' ' : c;
    throw Error(ErrorKind::file,
                fmt::format("{}: not valid JSON at line {}, column {}: {}", name_, line, column, reason));
  }

 private:
  bool in_rows() const { return rows_depth_ > 0 && stack_.size() == rows_depth_; }
  // Of a member that is whole.
  void put_row() {
    if (rows_->take(rows_place_, row_key_, row_)) return;
    if (stack_.back()->is_array()) return stack_.back()->push_back(std::move(row_));
    const size_t depth = std::exchange(rows_depth_, 0);
    key(row_key_);
    *slot_ = std::move(row_);
    rows_depth_ = depth;
  }
  // Whether the container that was just opened is one of those whose members are handed out.
  void look_for_rows() {
    if (stack_.size() == 1) return;
    const bool named = stack_[stack_.size() - 2]->is_object();
    path_.push_back(path_.empty() ? "" : path_.back() + ".");
    path_.back() += named ? *slot_key_ : "[]";
    const auto found = std::find(rows_->places.begin(), rows_->places.end(), path_.back());
    if (found == rows_->places.end()) return;
    rows_place_ = static_cast<size_t>(found - rows_->places.begin());
    rows_depth_ = stack_.size();
    row_key_.clear();
  }

  Json* place(Json&& value) {
    if (in_rows()) return &(row_ = std::move(value));
    if (stack_.empty()) return &(root = std::move(value));
    if (stack_.back()->is_object()) return &(*slot_ = std::move(value));
    auto& array = stack_.back()->get_ref<Json::array_t&>();
    array.push_back(std::move(value));
    return &array.back();
  }
  template <typename T>
  bool put(T&& value) {
    place(Json(std::forward<T>(value)));
    if (in_rows()) put_row();
    return true;
  }
  // A pointer into an array stays good while it is on the stack: the array grows again only after it was
  // shut.
  bool open(Json&& value) {
    if (stack_.size() == kMostNesting) {
      throw Error(ErrorKind::file, fmt::format("{}: JSON nested deeper than {} levels", name_, kMostNesting));
    }
    stack_.push_back(place(std::move(value)));
    if (rows_ && rows_depth_ == 0) look_for_rows();
    return true;
  }
  bool shut() {
    const bool ends_rows = in_rows();
    stack_.pop_back();
    if (ends_rows) rows_depth_ = 0;
    if (rows_ && rows_depth_ == 0 && !path_.empty()) path_.pop_back();
    if (in_rows()) put_row();
    return true;
  }

  std::string_view text_;
  const std::string& name_;
  std::vector<Json*> stack_;
  Json* slot_ = nullptr;
  const std::string* slot_key_ = nullptr;

  const JsonRows* rows_;
  std::vector<std::string> path_;  // of what is open below the root
  size_t rows_depth_ = 0;          // how much is open where members are handed out; 0: they are not
  size_t rows_place_ = 0;
  std::string row_key_;
  Json row_;
};

constexpr auto kReplace = Json::error_handler_t::replace;

}  // namespace

static Json build(std::string_view text, const std::string& name, const JsonRows* rows) {
  Builder builder(text, name, rows);
  Json::sax_parse(text, &builder);
  return std::move(builder.root);
}

Json parse_json(std::string_view text, const std::string& name) {
  return build(text, name, nullptr);
}

Json parse_json_file(const std::string& path) {
  return parse_json(read_file(path), path);
}

Json parse_json_file(const std::string& path, const JsonRows& rows) {
  return build(read_file(path), path, &rows);
}

std::string dump_json(const Json& value, int indent) {
  return value.dump(indent, ' ', false, kReplace);
}
std::string dump_json(const OrderedJson& value, int indent) {
  return value.dump(indent, ' ', false, OrderedJson::error_handler_t::replace);
}
std::string quote_json(std::string_view text) {
  return Json(text).dump(-1, ' ', false, kReplace);
}

}  // namespace plumb
