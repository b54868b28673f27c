// The subcommands of `plumb tokenizer`, one file each; tokenizer.cpp lists them.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace plumb::cli {

void add_tokenizer_train(CLI::App& parent);
void add_tokenizer_encode(CLI::App& parent);
void add_tokenizer_decode(CLI::App& parent);
void add_tokenizer_show(CLI::App& parent);
void add_tokenizer_check(CLI::App& parent);

// The argument that each of them but train takes first.
void add_tokenizer_path(CLI::App& command, std::string& path);

// Runs `each` on the lines of the standard input. A line that is refused is named by its number.
void each_line_of_input(const std::function<void(const std::string&)>& each);

}  // namespace plumb::cli
