// Every placement in one setting, so that each has figures to be compared by.
#include <cmath>

#include "lab/battery.h"
#include "plumb/config_fields.h"

namespace plumb::battery {
namespace {

// What a loss is known to come to at 12 layers after 300 steps, in the calibrated setting, where matrices are
// Xavier's under every placement.
const char* known_loss(Placement p) {
  switch (p) {
    case Placement::pre_norm:
      return "calibrated 1.74 with Xavier's init";
    case Placement::post_norm:
      return "calibrated 3.16 to 3.42 (400 steps)";
    case Placement::re_zero:
      return "calibrated 1.77 with Xavier's init";
    case Placement::plain:
      return "calibrated 3.39 with Xavier's init";
    default:
      return "";
  }
}

}  // namespace

void every_placement(const Setting& setting, BatteryExperiment& e) {
  std::vector<Job> jobs;
  for (size_t i = 0; i < EnumNames<Placement>::names.size(); ++i) {
    const auto p = static_cast<Placement>(i);
    Job job{.config = small_config(p, 12)};
    job.config.init.reset();
    // T-Fixup draws its embeddings smaller.
    if (p == Placement::t_fixup) job.start.embedding_std = job.config.init_std;
    jobs.push_back(std::move(job));
    e.placements.push_back(enum_name(p));
  }
  const auto trained = train_all(*setting.text, jobs);
  note(e, "loss without context", setting.text->unigram_entropy(), "calibrated 3.39");
  for (size_t i = 0; i < jobs.size(); ++i) {
    Ends ends;
    loss_and_gradients(*started(jobs[i].config, jobs[i].start), random_rows(1), &ends);
    const std::string& name = e.placements[i];
    note(e, name + ": stream behind the last layer over that before the first, at init",
         rms(ends.last) / rms(ends.first), "");
    if (ends.top > 0)  // under Fixup's head of 0 there is none
      note(e, name + ": gradient of the stream below over that above, at init", ends.bottom / ends.top, "");
    note(e, name + ": loss", trained[i].loss, known_loss(jobs[i].config.layer.placement));
  }
}

}  // namespace plumb::battery
