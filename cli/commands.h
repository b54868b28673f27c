// The subcommands, one file each: cli/<name>.cpp defines add_<name>, which adds the subcommand with its flags
// and a callback that does the work through the public headers. A callback ends by returning, or throws
// plumb::Error. A new command: its file, its line here, and its name in the list in main.cpp (the order of
// --help).
#pragma once

#include <CLI/CLI.hpp>
#include <string>

// Of a command that ran: 0, or what it found (compare, check, diagnose, battery).
extern int exit_status;
extern std::string program_name;  // how to call this program from here, for "what to try next"

void add_train(CLI::App& app);
void add_generate(CLI::App& app);
void add_eval(CLI::App& app);
void add_score(CLI::App& app);
void add_info(CLI::App& app);
void add_convert(CLI::App& app);
void add_merge(CLI::App& app);
void add_check(CLI::App& app);
void add_trace(CLI::App& app);
void add_compare(CLI::App& app);
void add_trial(CLI::App& app);
void add_diagnose(CLI::App& app);
void add_battery(CLI::App& app);
void add_report(CLI::App& app);
void add_watch(CLI::App& app);
void add_tokenizer(CLI::App& app);
void add_bench(CLI::App& app);
