// The report of a training run: one HTML file that carries its scripts and data and asks nothing of a
// network.
#pragma once

#include <string>

namespace plumb {

// Reads a run's folder: metrics.jsonl (needed), probe.jsonl, recipe.toml, the model's config.json and
// sample.txt (each used where it is there), and writes the page. Lines that are malformed are left out, and
// the page says which. Throws Error(file) where the folder has no record to show or the page cannot be
// written.
void write_report(const std::string& run_folder, const std::string& out_html);

}  // namespace plumb
