#include "support/made_run.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "model/families.h"
#include "support/files.h"

namespace plumb::test {
namespace {

double noise(int64_t step, uint64_t stream, double scale) {
  return 1 + scale * random_normal({7, random_stream(stream)}, static_cast<uint64_t>(step));
}

double loss_at(int64_t step) {
  return 1.9 + 6.4 * std::exp(-static_cast<double>(step) / 55) + 0.3 / std::sqrt(static_cast<double>(step));
}

double rate_at(int64_t step, int64_t steps) {
  const double warmup = std::max(1.0, 0.1 * static_cast<double>(steps)), at = static_cast<double>(step);
  if (at <= warmup) return 3e-3 * at / warmup;
  return 3e-4 +
         2.7e-3 * 0.5 * (1 + std::cos(3.14159265 * (at - warmup) / (static_cast<double>(steps) - warmup)));
}

std::string metrics(const MadeRun& run) {
  std::string text;
  for (int64_t s = 1; s <= run.steps; ++s) {
    const bool skipped = run.events && s == run.steps * 3 / 5, spike = run.events && s == run.steps * 2 / 5;
    const double loss = loss_at(s) * noise(s, 1, 0.012) + (spike ? 1.6 : 0);
    text += fmt::format(
        R"({{"step":{},"loss":{},"nll":{:.5g},"lr":{:.5g},"grad_norm":{},"tokens":4096,"seconds":{:.4g}{}}})"
        "\n",
        s, skipped ? "null" : fmt::format("{:.5g}", loss), loss, rate_at(s, run.steps),
        skipped
            ? "null"
            : fmt::format("{:.4g}", (0.6 + 2.4 * std::exp(-static_cast<double>(s) / 20)) * noise(s, 2, 0.1)),
        0.31 * noise(s, 3, 0.03),
        skipped ? R"(,"skipped":true)"
        : spike ? R"(,"spike":true)"
                : "");
    if (s % 20 == 0) {
      const double v = loss_at(s) + 0.12;
      text += fmt::format(
          R"({{"step":{},"validation_loss":{:.5g},"validation_nll":{:.5g},"perplexity":{:.5g},"bits_per_byte":{:.4g},"accuracy":0.4,"seconds":0.9}})"
          "\n",
          s, v, v, std::exp(v), v / 3.9 / std::log(2.0));
    }
  }
  return text;
}

struct Site {
  std::string at;
  double depth = 0;  // sub-layers before it, within its stack
  bool is_end = false;
};

std::vector<Site> sites_of(const ModelConfig& c) {
  std::vector<Site> sites;
  for (const Side side : {Side::encoder, Side::decoder}) {
    const std::string stack = side == Side::encoder ? "encoder" : "decoder";
    const int64_t layers = side == Side::encoder ? c.encoder_layers : c.decoder_layers;
    double depth = 0;
    for (int64_t l = 0; l < layers; ++l) {
      for (const char* part : {"attention", "cross_attention", "feed_forward"}) {
        if (std::string(part) == "cross_attention" && (side == Side::encoder || !c.has_encoder())) continue;
        sites.push_back({fmt::format("{}.{}.{}", stack, l, part), depth++});
      }
    }
    if (layers > 0) sites.push_back({stack, depth, true});
  }
  return sites;
}

std::string tensor_measures(double rms, double grad, int64_t step) {
  return fmt::format(
      R"({{"rms":{:.5g},"mean":{:.4g},"max":{:.5g},"median":{:.5g},"kurtosis":{:.4g},"grad_norm":{:.4g},"grad_rms":{:.4g}}})",
      rms, 0.01 * rms, 5.5 * rms * noise(step, 9, 0.05), 0.67 * rms, 3.3, grad * 500, grad);
}

std::string weight_measures(double grad, double rate, double rms) {
  return fmt::format(R"("grad_norm":{:.4g},"rms":{:.4g},"update_rms":{:.4g},"update_ratio":{:.4g})", grad,
                     rms, 0.2 * rate, 0.2 * rate / rms);
}

std::string probe_line(const MadeRun& run, int64_t s) {
  const double trained = 1 - std::exp(-static_cast<double>(s) / 60), rate = rate_at(s, run.steps);
  std::string sites, parameters;
  uint64_t stream = 20;
  for (const Site& site : sites_of(run.config)) {
    ++stream;
    const double rms =
        (0.3 + 0.7 * trained) * std::sqrt(1 + 0.35 * (0.4 + trained) * site.depth) * noise(s, stream, 0.02);
    const double branch = rms * (0.2 + 0.5 * trained / (1 + 0.2 * site.depth)) * noise(s, stream + 50, 0.04);
    const double grad =
        3e-5 * std::exp(-0.05 * site.depth) * (1.2 - 0.6 * trained) * noise(s, stream + 90, 0.05);
    if (!sites.empty()) sites += ",";
    if (site.is_end) {
      sites += fmt::format(R"({{"at":"{}","output":{}}})", site.at, tensor_measures(rms, grad, s));
      continue;
    }
    const double weights = 0.02 + 0.03 * trained;
    const std::string measures =
        weight_measures(0.1 * noise(s, stream + 130, 0.1), rate * noise(s, stream + 170, 0.1), weights);
    sites += fmt::format(
        R"({{"at":"{}","stream":{},"branch":{},"step":{{"ratio":{:.4g},"cosine":{:.4g}}},"weights":{{{}}}}})",
        site.at, tensor_measures(rms, grad, s), tensor_measures(branch, grad * 0.9, s), branch / rms,
        1 / std::sqrt(1 + std::pow(branch / rms, 2)), measures);
    parameters +=
        fmt::format(R"({}{{"at":"{}.output.weight",{}}})", parameters.empty() ? "" : ",", site.at, measures);
  }
  return fmt::format(
      R"({{"step":{},"loss":{:.5g},"lr":{:.5g},"grad_norm":0.8,"clip":{},"sites":[{}],"parameters":[{}]}})"
      "\n",
      s, loss_at(s), rate, s < 30 ? 0.5 : 1, sites, parameters);
}

}  // namespace

ModelConfig made_config() {
  ModelConfig c;
  c.vocab_size = 2048;
  c.width = 128;
  c.decoder_layers = 6;
  c.layer.heads = 4;
  return c;
}

void write_made_run(const std::string& folder, const MadeRun& run) {
  const std::filesystem::path root(folder);
  write_file(root / "metrics.jsonl", metrics(run));
  write_file(root / "model" / "config.json", write_config(run.config, "float32"));
  write_file(root / "recipe.toml", "# made up\ntext = \"/a/folder of <texts>\"\nsteps = " +
                                       std::to_string(run.steps) + "\nlr = 3e-3\n");
  write_file(root / "sample.txt",
             "The reader of this page should know that nobody trained anything:\n<b>these</b> words & "
             "figures are made up.\n");
  if (run.probe_every == 0) return;
  std::string probe = probe_line(run, 1);
  for (int64_t s = run.probe_every; s <= run.steps; s += run.probe_every) probe += probe_line(run, s);
  write_file(root / "probe.jsonl", probe);
}

}  // namespace plumb::test
