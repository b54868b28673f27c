// What the laboratory's HTML pages share.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "plumb/config.h"

namespace plumb {

std::string escaped(std::string_view text);  // as HTML text or an attribute's value

// The template with each {{name}} replaced; what is put in is not looked through again.
std::string filled(std::string_view page, const std::vector<std::pair<std::string, std::string>>& values);

std::string script_data(const OrderedJson& value);  // JSON text that may stand inside a <script> element

OrderedJson formula_data(const SublayerFormula& f, const LayerConfig& layer);  // what report_diagram.js draws

// A page about one input: a heading, sections of HTML, data for its scripts, and the script that draws them.
struct WalkPage {
  std::string kind, title, body;
  std::string data;         // of script_data()
  std::string_view script;  // an embedded file's name
};
std::string walk_page(const WalkPage& page);

// The scripts that every page shares, and the one of this name.
std::string page_script(std::string_view name);

// A table of text cells; the first column is the rows' head. `words` is its caption.
std::string html_table(const std::string& words, const std::vector<std::vector<std::string>>& rows);

}  // namespace plumb
