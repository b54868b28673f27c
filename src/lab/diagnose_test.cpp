// plumb diagnose on real training runs: each signature provoked, and twenty sound runs without an alarm.
#include "plumb/diagnose.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/log.h"
#include "base/test_support.h"
#include "model/transformer.h"
#include "plumb/error.h"
#include "plumb/probe.h"
#include "plumb/trainer.h"

namespace plumb {
namespace {

// Sentences of a few words, in an order that has something to learn.
std::string easy_text(size_t size) {
  const char* words[] = {"the ", "cat ", "sat ", "on ", "a ", "mat ", "and ", "saw ", "the ", "dog.\n"};
  std::string text;
  for (uint64_t x = 1; text.size() < size;) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    text += words[(text.size() / 3 + (x >> 62)) % 10];
  }
  return text;
}

struct MadeRun {
  std::string name, text = easy_text(20000), task, recipe;
  bool masked = false;
  ModelConfig config;  // vocabulary and token ids come from the data
  TrainOptions options{.steps = 70,
                       .batch = 4,
                       .length = 32,
                       .lr = 3e-3,
                       .schedule = ScheduleKind::constant,
                       .eval_every = 0,
                       .eval_batches = 1,
                       .checkpoint_every = 0};
  int64_t probe_every = 5;
  std::function<void(Transformer&)> fault;  // made before the first step

  MadeRun() {
    config.width = 32;
    config.layer.heads = 2;
    config.max_length = 64;
    config.decoder_layers = 2;
  }
};

class Diagnose : public testing::Test {
 protected:
  Dataset data_of(const MadeRun& run) {
    if (!run.task.empty()) return Dataset::synthetic(run.task, {});
    const std::string path = folder / (run.name + ".txt");
    std::ofstream(path) << run.text;
    const TextOptions options{.held_out = 0.05, .cache_folder = folder / "cache"};
    return run.masked ? Dataset::masked_text(path, Tokenizer::bytes(), options)
                      : Dataset::text(path, Tokenizer::bytes(), options);
  }

  // Trains; the folder of the run. One that gives up leaves its records all the same.
  std::string train(MadeRun run) {
    set_log_level(LogLevel::error);
    const Dataset data = data_of(run);
    run.config.vocab_size = data.vocab_size();
    run.config.pad_id = data.tokenizer().special(TokenRole::pad).value_or(-1);
    if (run.config.has_encoder() && run.config.has_decoder())
      run.config.decoder_start_id = *data.tokenizer().special(TokenRole::bos);
    Model model = Model::create(run.config, run.options.seed);
    if (run.fault) run.fault(model.transformer());
    const std::string out = folder / run.name;
    Trainer trainer(model, data, run.options, out);
    Probe probe(out + "/probe.jsonl", {.every = run.probe_every, .adam_eps = run.options.eps});
    probe.measure_model(model, probe_batch(data, {.tokens = run.options.batch * run.options.length,
                                                  .length = run.options.length}));
    trainer.watch(probe.observer());
    try {
      trainer.run();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::numeric) throw;
    }
    if (!run.recipe.empty()) std::ofstream(out + "/recipe.toml") << run.recipe;
    return out;
  }

  Diagnosis of(const MadeRun& run) { return diagnose(train(run)); }

  TempFolder folder;
};

const Finding* find(const Diagnosis& d, Signature signature) {
  for (const Finding& f : d.findings) {
    if (f.signature == signature) return &f;
  }
  return nullptr;
}

float* values(Transformer& model, const std::string& name) {
  return model.parameters().find(name)->value.f32();
}

bool proposes(const Finding& f, const std::string& flag) {
  return std::any_of(f.remedies.begin(), f.remedies.end(),
                     [&](const Remedy& r) { return r.flag.starts_with(flag); });
}

// A learning rate far too high, on a model without norms on queries and keys (Wortsman 2023, figure 1).
TEST_F(Diagnose, AttentionLogitsThatGrowUntilEntropyCollapses) {
  MadeRun run;
  run.name = "logits";
  run.options.lr = 1;
  run.options.steps = 80;
  const Diagnosis d = of(run);
  const Finding* growth = find(d, Signature::attention_logit_growth);
  const Finding* collapse = find(d, Signature::entropy_collapse);
  ASSERT_TRUE(growth && collapse) << diagnosis_text(d);
  EXPECT_TRUE(growth->at.ends_with(".attention"));
  EXPECT_GT(growth->began, 1);
  EXPECT_EQ(growth->evidence.front().measure, "attention.max_logit");
  EXPECT_LT(growth->evidence.front().value, 1);
  EXPECT_GT(growth->evidence.back().value, 100);
  EXPECT_GT(collapse->evidence.front().value, 0.9);
  EXPECT_LT(collapse->evidence.back().value, 0.1);
  EXPECT_TRUE(proposes(*growth, "--qk-norm")) << diagnosis_text(d);
}

// Head and embedding alone, at a high rate and without decay or z-loss: nothing holds log Z.
TEST_F(Diagnose, OutputLogitsThatDrift) {
  MadeRun run;
  run.name = "drift";
  run.options.lr = 0.3;
  run.options.weight_decay = 0;
  run.options.freeze = {"decoder."};
  const Diagnosis d = of(run);
  const Finding* f = find(d, Signature::output_logit_drift);
  ASSERT_TRUE(f) << diagnosis_text(d);
  EXPECT_EQ(f->at, "head");
  EXPECT_NEAR(f->evidence.front().value, std::log(258), 0.5);  // log Z of a fresh model: ln V
  EXPECT_TRUE(proposes(*f, "--z-loss"));
}

// One token's row is nearly zero beside a stream of size 1, and the norm that reads it divides by its size
// (Takase 2023): its gradient is twenty times its usual size in the steps that show it.
TEST_F(Diagnose, AnEmbeddingGradientThatSpikes) {
  MadeRun run;
  run.name = "embedding";
  run.options.batch = 1;
  run.options.lr = 1e-4;
  run.options.steps = 100;
  run.probe_every = 1;
  for (size_t i = 150; i < run.text.size(); i += 300) run.text[i] = 'Q';
  run.fault = [](Transformer& model) {
    float* w = values(model, "token_embedding.weight");
    for (int64_t i = 0; i < model.config().vocab_size * model.config().width; ++i) w[i] *= 50;
    for (int64_t c = 0; c < model.config().width; ++c) w['Q' * model.config().width + c] *= 1e-5f;
  };
  run.config.tied_embeddings = false;
  const Diagnosis d = of(run);
  const Finding* f = find(d, Signature::embedding_gradient_spike);
  ASSERT_TRUE(f) << diagnosis_text(d);
  EXPECT_EQ(f->at, "token_embedding");
  EXPECT_GT(f->evidence[1].value, 5 * f->evidence[0].value);
  EXPECT_TRUE(proposes(*f, "--embedding-norm"));
}

// Fixup starts with a head and branches of zero: gradients of embeddings are tiny, and grow as the head does.
// The figures are like those of such runs: little by little, and once fourfold from one record to the next.
TEST_F(Diagnose, AGradientThatGrowsFromAnInitOfZeroIsNoSpike) {
  const double embedding[] = {0.029, 0.031, 0.050, 0.106, 0.215, 0.404, 1.603, 1.891, 1.206, 1.453},
               layer[] = {0.029, 0.043, 0.144, 0.407, 0.878, 1.546, 2.348, 3.191, 3.190, 0.937};
  const std::string out = folder / "fixup";
  std::filesystem::create_directories(out);
  std::ofstream metrics(out + "/metrics.jsonl"), probe(out + "/probe.jsonl");
  const auto record = [&](int step, double table, double last) {
    metrics << fmt::format("{{\"step\":{},\"loss\":{},\"grad_norm\":1}}\n", step, 5.5 - 0.2 * step);
    probe << fmt::format(
        "{{\"step\":{},\"sites\":[{{\"at\":\"token_embedding\",\"weights\":{{\"grad_norm\":{}}}}},"
        "{{\"at\":\"decoder.0\",\"layer\":{{\"grad_norm\":{}}}}}]}}\n",
        step, table, last);
  };
  for (int i = 0; i < 10; ++i) record(i + 1, embedding[i], layer[i]);
  metrics.flush();
  probe.flush();
  EXPECT_FALSE(diagnose(out).alarm()) << diagnosis_text(diagnose(out));
  record(11, 15, 1);
  metrics.close();
  probe.close();
  EXPECT_TRUE(find(diagnose(out), Signature::embedding_gradient_spike));
}

TEST_F(Diagnose, ABranchThatIsDead) {
  MadeRun run;
  run.name = "dead";
  run.config.layer.gated = false;
  run.config.layer.activation = Activation::relu;
  run.config.layer.ffn_bias = true;
  run.fault = [](Transformer& model) {  // no hidden unit of layer 1 is ever above zero
    for (int64_t i = 0; i < 4 * model.config().width; ++i)
      values(model, "decoder.1.feed_forward.up.bias")[i] = -100;
  };
  const Diagnosis d = of(run);
  const Finding* f = find(d, Signature::dead_branch);
  ASSERT_TRUE(f) << diagnosis_text(d);
  EXPECT_TRUE(f->at.starts_with("decoder.1.feed_forward")) << f->at;
  EXPECT_TRUE(proposes(*f, "--activation"));
}

TEST_F(Diagnose, ABranchThatAddsNothing) {
  MadeRun run;
  run.name = "nothing";
  run.options.weight_decay = 0;
  run.fault = [](Transformer& model) {
    const auto* p = model.parameters().find("decoder.0.attention.output.weight");
    for (int64_t i = 0; i < p->value.numel(); ++i) p->value.f32()[i] = 0;
  };
  run.options.freeze = {"decoder.0.attention.output"};
  const Diagnosis d = of(run);
  const Finding* f = find(d, Signature::dead_branch);
  ASSERT_TRUE(f) << diagnosis_text(d);
  EXPECT_EQ(f->at, "decoder.0.attention");
  EXPECT_EQ(f->evidence.front().measure, "step.ratio");
}

TEST_F(Diagnose, MassiveActivations) {
  MadeRun run;
  run.name = "massive";
  run.fault = [](Transformer& model) {
    float* w = values(model, "token_embedding.weight");
    for (int64_t row = 0; row < model.config().vocab_size; ++row) w[row * model.config().width + 5] = 500;
  };
  run.config.tied_embeddings = false;
  const Diagnosis d = of(run);
  const Finding* f = find(d, Signature::massive_activations);
  ASSERT_TRUE(f) << diagnosis_text(d);
  EXPECT_EQ(f->at, "decoder.0.attention");
  EXPECT_EQ(f->began, 1);
}

TEST_F(Diagnose, NumbersThatOverflow) {
  MadeRun run;
  run.name = "overflow";
  run.options.optimizer = OptimizerKind::sgd;
  run.options.lr = 1e15;
  run.options.clip = 0;
  const Diagnosis d = of(run);
  EXPECT_EQ(d.course, Course::diverged);
  EXPECT_EQ(d.onset, 2);
  ASSERT_EQ(d.findings.size(), 1u) << diagnosis_text(d);  // what came of it is not told beside it
  EXPECT_EQ(d.findings[0].signature, Signature::precision_overflow);
  EXPECT_EQ(d.findings[0].at, "decoder.0.attention");
  EXPECT_TRUE(proposes(d.findings[0], "--lr"));
}

// Sound at first, then ever less so: the rate rises to where nothing holds.
TEST_F(Diagnose, ADivergenceNamesThePlaceThatMovedFirst) {
  MadeRun run;
  run.name = "diverged";
  run.options.steps = 150;
  run.options.warmup = 4000;
  run.options.lr = 40;
  run.options.clip = 0;
  const Diagnosis d = of(run);
  ASSERT_EQ(d.course, Course::diverged) << diagnosis_text(d);
  EXPECT_GT(d.last_loss, d.best_loss + 0.3);
  ASSERT_TRUE(d.moved) << diagnosis_text(d);
  EXPECT_GT(d.moved->step, 1);
  EXPECT_GT(d.moved->value, 0);
  EXPECT_NE(diagnosis_text(d).find("first to move: " + d.moved->at), std::string::npos);
}

TEST_F(Diagnose, OverflowThatNoSampledStepShows) {
  MadeRun run;
  run.name = "unseen";
  run.options.optimizer = OptimizerKind::sgd;
  run.options.lr = 1e15;
  run.options.clip = 0;
  run.probe_every = 1000;
  const Diagnosis d = of(run);
  const Finding* f = find(d, Signature::precision_overflow);
  ASSERT_TRUE(f) << diagnosis_text(d);
  EXPECT_EQ(f->began, 2);
  EXPECT_EQ(f->at, "");
}

TEST_F(Diagnose, ABatchUnlikeTheOthers) {
  MadeRun run;
  run.name = "data";
  run.options.batch = 1;
  run.options.steps = 150;
  std::string noise;
  for (uint64_t i = 0; i < 500; ++i) noise += static_cast<char>('!' + random_below({4, 1}, i, 94));
  run.text.insert(run.text.size() / 3, noise);
  run.recipe = "lr = 0.003\nspike = \"log\"\n";
  const Diagnosis d = of(run);
  EXPECT_EQ(d.course, Course::sound);
  const Finding* f = find(d, Signature::data_spike);
  ASSERT_TRUE(f) << diagnosis_text(d);
  EXPECT_EQ(d.findings.size(), 1u) << diagnosis_text(d);
  EXPECT_GT(f->evidence[1].value, f->evidence[0].value + 1);
  EXPECT_LT(f->evidence[2].value, f->evidence[1].value - 1);
  EXPECT_TRUE(proposes(*f, "--spike skip"));
}

// The same spike in a run that is sound, and behind the onset of one that diverges.
TEST_F(Diagnose, ASpikeOfADivergedModelIsNotTheDatas) {
  for (const double height : {2.0, 9.0}) {
    const std::string out = folder / fmt::format("height-{}", height);
    std::filesystem::create_directories(out);
    std::ofstream metrics(out + "/metrics.jsonl");
    for (int step = 1; step <= 100; ++step) {
      const double level = step < 60 ? 2 : height, spike = step == 85 ? 5 : 0;
      metrics << fmt::format("{{\"step\":{},\"loss\":{},\"grad_norm\":1}}\n", step,
                             level + 0.01 * std::sin(step) + spike);
    }
    metrics.close();
    const Diagnosis d = diagnose(out);
    EXPECT_EQ(d.course == Course::diverged, height > 2) << diagnosis_text(d);
    EXPECT_EQ(find(d, Signature::data_spike) == nullptr, height > 2) << diagnosis_text(d);
  }
}

// Steps like those of runs at learning rates of 1 and 3, whose text is sound: a rise that is announced, or
// that stays a step longer, is the model's. The third is a batch's; not where attention had broken before it.
TEST_F(Diagnose, ASpikeThatComesOrGoesSlowlyIsTheModels) {
  struct Made {
    std::vector<double> spike;
    bool broken = false, expected = false;
  };
  int count = 0;
  for (const Made& m : {Made{{6.3, 7.4, 5.0}}, Made{{5.0, 15.9, 9.6}}, Made{{5.0, 15.9, 5.1}, false, true},
                        Made{{5.0, 15.9, 5.1}, true}}) {
    const std::string out = folder / fmt::format("spike-{}", count++);
    std::filesystem::create_directories(out);
    std::ofstream metrics(out + "/metrics.jsonl"), probe(out + "/probe.jsonl");
    for (int step = 1; step <= 80; ++step) {
      const bool inside = step >= 40 && step < 43;
      metrics << fmt::format("{{\"step\":{},\"loss\":{},\"grad_norm\":1}}\n", step,
                             inside ? m.spike[static_cast<size_t>(step - 40)] : 5 + 0.05 * std::sin(step));
      if (step % 10 != 1) continue;
      probe << fmt::format(
          "{{\"step\":{},\"sites\":[{{\"at\":\"encoder.0.attention\",\"attention\":{{\"max_logit\":{},"
          "\"entropy\":0.5}}}}]}}\n",
          step, m.broken && step > 1 ? 300 * step : 1);
    }
    metrics.close();
    probe.close();
    const Diagnosis d = diagnose(out);
    EXPECT_EQ(find(d, Signature::data_spike) != nullptr, m.expected) << count << diagnosis_text(d);
    EXPECT_EQ(find(d, Signature::attention_logit_growth) != nullptr, m.broken) << diagnosis_text(d);
  }
}

// A loss that goes up does so by logits that are sure and wrong: less of a drift tells it than where all is
// well.
TEST_F(Diagnose, ALossThatRisesIsToldByItsLogits) {
  for (const double end : {9.0, 2.0}) {
    const std::string out = folder / fmt::format("rise-{}", end);
    std::filesystem::create_directories(out);
    std::ofstream metrics(out + "/metrics.jsonl"), probe(out + "/probe.jsonl");
    for (int step = 1; step <= 80; ++step) {
      metrics << fmt::format("{{\"step\":{},\"loss\":{},\"grad_norm\":1}}\n", step, step < 40 ? 5.0 : end);
      if (step % 10 != 1) continue;
      probe << fmt::format(
          "{{\"step\":{},\"sites\":[{{\"at\":\"head\",\"logits\":{{\"log_z\":{},\"max\":30}}}}]}}\n", step,
          step < 40 ? 5.5 : 13);
    }
    metrics.close();
    probe.close();
    const Diagnosis d = diagnose(out);
    EXPECT_EQ(find(d, Signature::output_logit_drift) != nullptr, end > 5) << diagnosis_text(d);
  }
}

// An encoder at a rate far too high: its loss leaps, and the text is the same all along.
TEST_F(Diagnose, AnEncoderAtTooHighARateIsNotItsTextsFault) {
  MadeRun run;
  run.name = "encoder";
  run.masked = true;
  run.config.decoder_layers = 0;
  run.config.encoder_layers = 2;
  run.options.lr = 1;
  run.options.batch = 8;
  run.options.steps = 60;
  const Diagnosis d = of(run);
  EXPECT_TRUE(d.alarm()) << diagnosis_text(d);
  EXPECT_FALSE(find(d, Signature::data_spike)) << diagnosis_text(d);
}

TEST_F(Diagnose, ARunThatIsStuckGetsWhatToTry) {
  MadeRun run;
  run.name = "stuck";
  run.options.lr = 1e-7;
  run.recipe = "lr = 1e-7\nsteps = 70\nplacement = \"post-norm\"\n";
  const Diagnosis d = of(run);
  EXPECT_EQ(d.course, Course::plateau);
  EXPECT_TRUE(d.findings.empty()) << diagnosis_text(d);
  std::vector<std::string> flags;
  for (const Remedy& r : d.remedies) flags.push_back(r.flag);
  EXPECT_EQ(flags, (std::vector<std::string>{"--placement pre-norm", "--warmup 7", "--lr 1e-06"}));
}

TEST_F(Diagnose, SoundRunsRaiseNoAlarmSlow) {
  const std::vector<Placement> placements{
      Placement::pre_norm,    Placement::post_norm,          Placement::deep_norm,
      Placement::sandwich,    Placement::reordered,          Placement::re_zero,
      Placement::layer_scale, Placement::layer_norm_scaling, Placement::sub_ln};
  int count = 0;
  const auto expect_sound = [&](MadeRun run) {
    run.name = "sound-" + std::to_string(count);
    run.options.seed = static_cast<uint64_t>(100 + count++);
    run.options.steps = 50;
    const Diagnosis d = of(run);
    EXPECT_FALSE(d.alarm()) << run.name << "\n" << diagnosis_text(d);
    EXPECT_LT(d.last_loss, d.first_loss);
  };
  for (size_t i = 0; i < placements.size(); ++i) {
    MadeRun run;
    run.config.layer.placement = placements[i];
    run.config.decoder_layers = 1 + static_cast<int64_t>(i % 3);
    expect_sound(run);
    run.config.width = 48;
    run.config.layer.heads = 3;
    run.config.layer.qk_norm = i % 2 == 0 ? QkNorm::per_head : QkNorm::none;
    run.options.schedule = ScheduleKind::cosine;
    run.options.warmup = 10;
    expect_sound(run);
  }
  for (const Placement p :
       {Placement::mix_ln, Placement::normformer, Placement::admin, Placement::fixup, Placement::t_fixup,
        Placement::resi_dual, Placement::ngpt, Placement::hyper_connections, Placement::mhc}) {
    MadeRun run;
    run.config.layer.placement = p;
    run.config.decoder_layers = 3;
    run.options.warmup = 20;
    expect_sound(run);
  }
  MadeRun encoder;
  encoder.masked = true;
  encoder.config.decoder_layers = 0;
  encoder.config.encoder_layers = 2;
  encoder.options.batch = 8;
  expect_sound(encoder);
  MadeRun both;
  both.task = "copy";
  both.config.encoder_layers = 2;
  both.options.length = 12;
  both.options.batch = 16;
  expect_sound(both);
  EXPECT_EQ(count, 29);
}

TEST_F(Diagnose, SaysWhatItCouldNotLookAt) {
  const std::string out = folder / "bare";
  std::filesystem::create_directories(out);
  std::ofstream(out + "/metrics.jsonl") << "{\"step\":1,\"loss\":3,\"grad_norm\":1}\nnot json\n";
  const Diagnosis d = diagnose(out);
  EXPECT_FALSE(d.alarm());
  ASSERT_EQ(d.limits.size(), 2u);
  EXPECT_NE(d.limits[0].find("probe.jsonl"), std::string::npos);
  EXPECT_NE(d.limits[1].find("metrics.jsonl, line 2"), std::string::npos);
  const Json j = parse_json(diagnosis_json(d), "json");
  EXPECT_EQ(j.at("course"), "sound");
  EXPECT_TRUE(j.at("findings").empty());
  EXPECT_THROW(diagnose(folder / "none"), Error);
}

}  // namespace
}  // namespace plumb
