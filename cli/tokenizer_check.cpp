// plumb tokenizer check: the rules on a tokenizer.
#include <algorithm>
#include <memory>
#include <sstream>

#include "findings.h"
#include "plumb/check.h"
#include "plumb/error.h"
#include "text_file.h"
#include "tokenizer.h"

namespace plumb::cli {
namespace {

struct CheckFlags {
  std::string tokenizer;
  std::vector<std::string> texts;
  FindingFlags findings;
};

void check(const CheckFlags& f) {
  f.findings.refuse_contradictions();
  std::vector<TokenizerSample> samples;
  for (const std::string& path : f.texts) {
    std::istringstream in(read_whole_file(path));
    int64_t number = 0;
    for (std::string line; std::getline(in, line);)
      samples.push_back({path + " line " + std::to_string(++number), line});
  }
  const auto& all = check_rules();
  const auto rules = std::count_if(all.begin(), all.end(), [](const CheckRule& r) {
    return r.subject == "tokenizer" || r.subject == "vocabulary";
  });
  f.findings.report(check_tokenizer(f.tokenizer, samples), f.tokenizer, static_cast<size_t>(rules));
}

}  // namespace

void add_tokenizer_check(CLI::App& parent) {
  auto f = std::make_shared<CheckFlags>();
  CLI::App* command = parent.add_subcommand(
      "check", "Round trips, tokens that nothing reaches, ids, and special tokens beside the model's config");
  add_tokenizer_path(*command, f->tokenizer);
  command
      ->add_option("--text", f->texts,
                   "UTF-8 files whose lines are tried too, beside built-in samples of many scripts")
      ->allow_extra_args(false);
  f->findings.add_to(*command);
  command->callback([f] { check(*f); });
}

}  // namespace plumb::cli
