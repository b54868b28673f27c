// The report of a training run, or of two side by side: one HTML file that carries its scripts and data and
// asks nothing of a network.
#pragma once

#include <string>
#include <vector>

namespace plumb {

// Reads the folder of one run, or of two: metrics.jsonl (needed), probe.jsonl, recipe.toml, the model's
// config.json and sample.txt (each used where it is there), and writes the page. Lines that are malformed are
// left out, and the page says which. Throws Error(file) where a folder has no record to show or the page
// cannot be written, Error(usage) for none, more than two or one run twice.
void write_report(const std::vector<std::string>& run_folders, const std::string& out_html);

}  // namespace plumb
