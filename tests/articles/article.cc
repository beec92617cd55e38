#include "tests/articles/article.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "placement/estimate/memory.h"

namespace hearth::placement {
namespace {

// The articles' assumptions.
constexpr double kParameters = 70e9;
constexpr double kCards = 8.0;
constexpr double kRoundBandwidth = 1e12;  // of a 4090
constexpr double kPcieOneWay = 32e9;      // half of the printed 64 GB/s
constexpr double kArticleExchanges = 2.0;
constexpr double kThroughCpu = 30e-6;                 // of one small exchange over PCIe
constexpr double kStacks = 0.5e-3;                    // of a hop, both protocol stacks
constexpr double kGigabit = 128.0 * 1024.0 * 1000.0;  // bytes a second: 128 "MB" of 1000 KiB
constexpr double kArticleMegabyte = 1000.0 * 1024.0;
constexpr double kSlowestRate = 5.0;  // tokens a second of a prompt
constexpr double kTokens = 4096.0;
constexpr double kServerWatts = 5000.0;
constexpr double kServerUsd = 40'000.0;    // with 8 x 4090
constexpr double kHomeUsd = 20'000.0;      // of 8 machines
constexpr double kHomeRoceUsd = 30'000.0;  // the same with 200 Gbit/s
constexpr double kHours = 3600.0;
// Of the dual-4090 server. The articles say neither the engine's share of memory nor its runtime.
constexpr double kOneRequest = 15.0;   // tokens a second
constexpr double kEngineMemory = 0.9;  // the usual share of the cards' memory that an engine takes
constexpr double kMoreKv = 0.5e9;
constexpr double kRuntimeOfCard = 0.5e9;
constexpr double kGroupedInt4Bits = 4.0 + (16.0 + 4.0) / 128.0;  // scale and zero of 128 weights
constexpr double kQ4_0Bits = 4.5;
// What holds in their place.
constexpr double kBitsOfByte = 8.0;
constexpr double kTrueGigabit = 1e9 / kBitsOfByte;
constexpr double kAllReduce =
    2.0 * (kCards - 1.0) / kCards;  // bytes that a card sends, of a vector

constexpr double kGB = 1e9;
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr double kMs = 1e-3;
constexpr double kUs = 1e-6;

// Of one position in all layers. `values`: heads whose K and V are kept, times head_dim.
double kv_bytes_fp16(std::uint32_t layers, double values) { return 2.0 * layers * values * 2.0; }

double rounded(double value, double step) { return std::round(value / step) * step; }

double two_digits(double value) {
  return rounded(value, std::pow(10.0, std::floor(std::log10(value)) - 1.0));
}

class Figures {
 public:
  explicit Figures(const ArticleInputs& inputs) : in_(inputs) {}

  std::vector<ArticleFigure> all() {
    training();
    memory();
    small_models();
    pipeline();
    pipeline_links();
    slow_link();
    faster_link();
    tensor_small();
    tensor_batch();
    tensor_h100();
    tensor_limits();
    cost();
    serving();
    more_kv();
    return std::move(figures_);
  }

 private:
  void add(std::string id, std::string text, std::string unit, double value) {
    figures_.push_back({std::move(id), std::move(text), std::move(unit), value, {}, {}});
  }
  void add(std::string id, std::string text, std::string unit, double value, double corrected,
           std::string changed) {
    figures_.push_back(
        {std::move(id), std::move(text), std::move(unit), value, corrected, std::move(changed)});
  }
  void note(std::string text) { figures_.back().changed = std::move(text); }
  void mark(ArticleFigure::Kind kind) { figures_.back().kind = kind; }

  double hidden() const { return in_.llama70b.hidden; }
  double layers() const { return in_.llama70b.layers; }
  double weights() const { return weight_bytes(kParameters, 16.0); }
  // All query heads, as the articles count; or those that the model has.
  double kv_all() const { return kv_bytes_fp16(in_.llama70b.layers, hidden()); }
  double kv_grouped() const {
    return kv_bytes_fp16(in_.llama70b.layers,
                         double{1.0} * in_.llama70b.kv_heads * in_.llama70b.head_dim);
  }
  double kv_int8() const { return layers() * kv_bytes_int8(in_.llama70b); }
  double activations(double batch) const { return batch * hidden() * 2.0; }
  double stage() const { return weights() / kCards / kRoundBandwidth; }
  double true_stage() const { return weights() / kCards / in_.rtx4090.memory_bytes_per_second; }
  double balance() const { return in_.printed_4090.fp16_short_flops / kRoundBandwidth; }
  double true_balance() const {
    return in_.rtx4090.fp16_flops / in_.rtx4090.memory_bytes_per_second;
  }
  // Of a batch of balance() rows, with sums in FP32.
  double true_batch_stage() const { return true_stage() * balance() / true_balance(); }
  double exchanges() const { return kArticleExchanges * layers(); }
  // The articles round an exchange to 0.01 ms and all of them to two digits.
  double exchange(double bytes, double rate) const { return rounded(bytes / rate, 0.01 * kMs); }
  double all_exchanges(double each) const { return two_digits(exchanges() * each / kMs) * kMs; }
  double true_exchanges(double batch, double rate) const {
    return exchanges() * kAllReduce * activations(batch) / rate;
  }

  void training();
  void memory();
  void small_models();
  void pipeline();
  void pipeline_links();
  void slow_link();
  void faster_link();
  void tensor_small();
  void tensor_batch();
  void tensor_h100();
  void tensor_limits();
  void cost();
  void serving();
  void more_kv();

  // Of the 72B model.
  double count() const { return parameters(in_.qwen72b); }
  double outside() const { return 2.0 * head_parameters(in_.qwen72b); }
  // Layers in 4 bits with scales of 128 weights; embedding and head in FP16.
  double engine_weights() const {
    return weight_bytes(count() - outside(), kGroupedInt4Bits) + weight_bytes(outside(), 16.0);
  }

  const ArticleInputs& in_;
  std::vector<ArticleFigure> figures_;
};

void Figures::training() {
  const double one = activation_bytes(kTokens, 8.0, hidden(), layers(), 1.0);
  const Training all = training_bytes(kParameters, one);
  add("training.weights", "weights, FP16", "GB", all.weights / kGB);
  add("training.gradients", "gradients, FP16", "GB", all.gradients / kGB);
  add("training.optimizer", "Adam: FP32 weights, momentum, variance", "GB", all.optimizer / kGB);
  add("training.activations", "activations of 8 x 4096 tokens", "GB", all.activations / kGB);
  add("training.total", "all of it", "GB", all.total() / kGB);
  add("training.cards_80", "cards of 80 GB", "", cards_for(all.total(), 80.0 * kGB));
  add("training.cards_24", "cards of 24 GB", "", cards_for(all.total(), 24.0 * kGB));
  add("training.small", "activations of 8 x 512 tokens, width 2048, 12 layers", "GB",
      activation_bytes(512.0, 8.0, 2048.0, 12.0, 1.0) / kGB);
  note("the article prints 1 GB; this is the product of its factors");
}

void Figures::memory() {
  const std::string grouped = "8 KV heads in place of 64";
  add("memory.kv_8", "KV of 8 x 4096 tokens, FP16", "GiB", 8.0 * kTokens * kv_all() / kGiB,
      8.0 * kTokens * kv_grouped() / kGiB, grouped);
  add("memory.kv_8_grouped", "the same with 8 KV heads", "GiB", 8.0 * kTokens * kv_grouped() / kGiB,
      8.0 * kTokens * kv_int8() / kGiB, "8-bit KV with its scales");
  add("memory.kv_4", "KV of 4 x 4096 tokens, FP16", "GiB", 4.0 * kTokens * kv_all() / kGiB,
      4.0 * kTokens * kv_grouped() / kGiB, grouped);
  const double all = weights() + 4.0 * kTokens * kv_all();
  const double corrected = weights() + 4.0 * kTokens * kv_grouped();
  add("memory.inference", "weights, FP16, and that KV", "GB", all / kGB, corrected / kGB, grouped);
  add("memory.cards_24", "cards of 24 GB for it", "", cards_for(all, 24.0 * kGB),
      cards_for(corrected, 24.0 * kGB), grouped);
  add("memory.cards_80", "cards of 80 GB for it", "", cards_for(all, 80.0 * kGB),
      cards_for(corrected, 80.0 * kGB), grouped);
}

void Figures::small_models() {
  add("memory.int4", "72B at 4 bits a weight", "GiB", weight_bytes(count(), 4.0) / kGiB,
      weight_bytes(count(), kQ4_0Bits) / kGiB,
      "Q4_0 has a 16-bit scale for each 32 weights; the article writes GB for 2^30 bytes here");
  add("memory.int4_runner", "the same as Q4_0, a local runner", "GB",
      weight_bytes(count(), kQ4_0Bits) / kGB);
  add("memory.int4_engine", "the same in a serving engine", "GB",
      (engine_weights() + 2.0 * kRuntimeOfCard) / kGB);
  note(
      "layers in 4 bits with scales of 128 weights, embedding and head FP16, 0.5 GB a card of "
      "runtime (assumed)");
}

void Figures::pipeline() {
  const std::string bandwidth = "1008 GB/s in place of 1 TB/s";
  add("pipeline.stage", "a stage, one row", "ms", stage() / kMs, true_stage() / kMs, bandwidth);
  add("pipeline.token", "8 stages", "ms", kCards * stage() / kMs, kCards * true_stage() / kMs,
      bandwidth);
  add("pipeline.rate", "one prompt", "tokens/s", 1.0 / (kCards * stage()),
      1.0 / (kCards * true_stage()), bandwidth);
  add("pipeline.balance", "batch at which computing takes as long as reading", "rows", balance(),
      true_balance(), "FP32 accumulate: half of the rate");
  add("pipeline.stacks", "1 Gbit/s, one row: protocol stacks of a hop", "ms", kStacks / kMs);
  mark(ArticleFigure::Kind::kGiven);
  add("pipeline.stacks_all", "of 8 hops", "ms", kCards * kStacks / kMs);
}

void Figures::pipeline_links() {
  const double rows = balance();
  const double bytes = activations(rows);
  const double as_printed = bytes / kArticleMegabyte * 1e6;  // the article's MB taken as 1e6 bytes
  const std::string unit = "1 MB has a million bytes";
  add("pipeline.bytes_8", "transfer of a batch of 8", "KiB", activations(8.0) / 1024.0);
  add("pipeline.time_8", "at 32 GB/s", "us", activations(8.0) / kPcieOneWay / kUs);
  add("pipeline.bytes_330", "transfer of a batch of 330", "MB", bytes / kArticleMegabyte,
      bytes / 1e6, unit);
  add("pipeline.pcie", "at 32 GB/s", "ms", as_printed / kPcieOneWay / kMs,
      bytes / kPcieOneWay / kMs, unit);
  add("pipeline.1g", "at 1 Gbit/s", "ms", bytes / kGigabit / kMs, bytes / kTrueGigabit / kMs,
      "1 Gbit/s is 125 MB/s");
  add("pipeline.10g", "at 10 Gbit/s, with the protocol stacks", "ms",
      (bytes / (10.0 * kGigabit) + kStacks) / kMs, (bytes / (10.0 * kTrueGigabit) + kStacks) / kMs,
      "10 Gbit/s is 1250 MB/s");
}

void Figures::slow_link() {
  const double token = 1.0 / kSlowestRate;
  const double left = token - kCards * stage();
  const double hop = left / kCards;
  const double batch = hop * kGigabit / activations(1.0);
  const double true_batch =
      std::floor((token / kCards - true_stage()) * kTrueGigabit / activations(1.0));
  add("slow.left", "1 Gbit/s, 5 tokens/s a prompt: time for the wire", "ms", left / kMs);
  add("slow.hop", "of each stage", "ms", hop / kMs);
  add("slow.bytes", "that carry", "KiB", hop * kGigabit / 1024.0, hop * kTrueGigabit / 1024.0,
      "1 Gbit/s is 125 MB/s");
  add("slow.batch", "batch", "rows", batch, true_batch, "125 MB/s and 1008 GB/s");
  const double in_flight = std::floor(token / true_stage());
  add("slow.total", "8 batches in flight", "tokens/s", kCards * batch * kSlowestRate,
      in_flight * true_batch * kSlowestRate,
      message_of("a stage computes while its last batch is on the wire: ",
                 static_cast<std::uint32_t>(in_flight), " in flight"));
  add("slow.share", "of the computing rate", "%", 100.0 * batch / balance(),
      100.0 * true_batch / true_balance(), "FP32 accumulate");
}

void Figures::faster_link() {
  const double hop = activations(balance()) / (10.0 * kGigabit) + kStacks;
  const double true_hop = activations(balance()) / (10.0 * kTrueGigabit) + kStacks;
  const double all = kCards * (stage() + hop);
  const double corrected = kCards * (true_batch_stage() + true_hop);
  const std::string accumulate = "FP32 accumulate: 330 rows take twice as long as reading";
  add("fast.transfer", "10 Gbit/s, batch 330: 8 transfers", "ms", kCards * hop / kMs,
      kCards * true_hop / kMs, "10 Gbit/s is 1250 MB/s");
  add("fast.token", "with 8 stages", "ms", all / kMs, corrected / kMs, accumulate);
  add("fast.rate", "a prompt", "tokens/s", 1.0 / all, 1.0 / corrected, accumulate);
}

void Figures::tensor_small() {
  const double transfers = all_exchanges(kThroughCpu);
  const double token = stage() + transfers;
  add("tensor.transfers", "exchanges of a token", "", exchanges());
  add("tensor.small", "of one row over PCIe, 30 us each", "ms", transfers / kMs);
  add("tensor.small_token", "and reading the weights", "ms", token / kMs,
      (true_stage() + transfers) / kMs, "1008 GB/s in place of 1 TB/s");
  add("tensor.small_rate", "one prompt", "tokens/s", 1.0 / token, 1.0 / (true_stage() + transfers),
      "1008 GB/s in place of 1 TB/s");
}

void Figures::tensor_batch() {
  const double batch = balance();
  const std::string sends = "an exchange of 8 cards sends 1.75 times the activations";
  const auto over = [&](const std::string& id, const std::string& link, double rate) {
    const double each = exchange(activations(batch), rate);
    const double all = all_exchanges(each);
    const double corrected = true_exchanges(batch, rate);
    const double step = stage() + all;
    const double true_step = true_batch_stage() + corrected;
    add(id + "_each", "batch 330 over " + link + ": an exchange", "ms", each / kMs,
        corrected / exchanges() / kMs, sends);
    add(id + "_all", "all of them", "ms", all / kMs, corrected / kMs, sends);
    add(id + "_step", "and reading the weights", "ms", step / kMs, true_step / kMs,
        sends + "; FP32 accumulate");
    add(id + "_rate", "a prompt", "tokens/s", 1.0 / step, 1.0 / true_step,
        sends + "; FP32 accumulate");
  };
  over("tensor.pcie", "PCIe", kPcieOneWay);
  over("tensor.roce", "200 Gbit/s", in_.roce.bytes_per_second);
}

void Figures::tensor_h100() {
  const Card& card = in_.printed_h100;
  const double batch = card.fp16_flops / card.memory_bytes_per_second;
  const double true_batch = in_.h100.fp16_flops / in_.h100.memory_bytes_per_second;
  const double rate = card.link_bytes_per_second;
  const double transfers = all_exchanges(exchange(activations(batch), rate));
  const double reading = weights() / kCards / card.memory_bytes_per_second;
  const double corrected = true_exchanges(true_batch, rate);
  const std::string dense = "the dense rate, 989 TFLOPS";
  const std::string sends = dense + "; an exchange sends 1.75 times the activations";
  add("tensor.h100_batch", "8 H100: batch of balance", "rows", batch, true_batch, dense);
  add("tensor.h100_all", "exchanges", "ms", transfers / kMs, corrected / kMs, sends);
  add("tensor.h100_read", "reading the weights", "ms", reading / kMs);
  add("tensor.h100_step", "together", "ms", (transfers + reading) / kMs,
      (corrected + reading) / kMs, sends);
  add("tensor.h100_rate", "a prompt", "tokens/s", 1.0 / (transfers + reading),
      1.0 / (corrected + reading), sends);
}

// A layer of width h has 24 h^2 operations a token and two exchanges of 2h bytes, each of which is
// sent twice: n cards compute as long as they send where n = 3 h * rate of the link / operations.
void Figures::tensor_limits() {
  const auto cards = [&](double link, double flops) { return 3.0 * hidden() * link / flops; };
  const double nvlink = in_.printed_h100.link_bytes_per_second;
  add("tensor.limit_4090", "4090 that train before PCIe 4 limits", "cards",
      cards(kPcieOneWay, in_.printed_4090.fp16_short_flops),
      cards(kPcieOneWay, in_.rtx4090.fp16_flops), "FP32 accumulate");
  add("tensor.limit_h100", "H100 that train before NVLink limits", "cards",
      cards(nvlink, in_.printed_h100.fp16_flops), cards(nvlink, in_.h100.fp16_flops),
      "the dense rate, 989 TFLOPS");
}

void Figures::cost() {
  const auto given = [&](const char* id, const char* text, double usd) {
    add(id, text, "USD", usd);
    note("the article states it; the catalogue derives its machines' prices from it");
    mark(ArticleFigure::Kind::kGiven);
  };
  given("cost.server", "a server with 8 x 4090", kServerUsd);
  given("cost.home", "8 home-built machines", kHomeUsd);
  given("cost.roce", "the same with 200 Gbit/s", kHomeRoceUsd);
  const double server_hour = hardware_usd(kServerUsd, kYearsOfUse);
  const double home_hour = hardware_usd(kHomeUsd, kYearsOfUse);
  const double power = electricity_usd(kServerWatts, in_.usd_per_kwh);
  const double step = all_exchanges(exchange(activations(balance()), kPcieOneWay));
  const double rate = balance() / step;
  const double true_step = std::max(true_batch_stage(), true_exchanges(balance(), kPcieOneWay));
  const double true_rate = balance() / true_step;
  const std::string changed =
      "an exchange of 8 cards sends 1.75 times the activations; FP32 accumulate";
  add("cost.server_hour", "server over 3 years", "USD/h", server_hour);
  add("cost.power_hour", "5 kW", "USD/h", power);
  add("cost.rate", "330 tokens while the exchanges last", "tokens/s", rate, true_rate, changed);
  add("cost.tokens_hour", "of an hour", "M tokens", rate * kHours / 1e6, true_rate * kHours / 1e6,
      changed);
  add("cost.server_tokens", "for a dollar, server", "M tokens",
      tokens_per_usd(rate, server_hour + power) / 1e6,
      tokens_per_usd(true_rate, server_hour + power) / 1e6, changed);
  add("cost.home_hour", "home-built over 3 years", "USD/h", home_hour);
  add("cost.home_all", "with electricity", "USD/h", home_hour + power);
  add("cost.home_tokens", "for a dollar, home-built", "M tokens",
      tokens_per_usd(rate, home_hour + power) / 1e6,
      tokens_per_usd(true_rate, home_hour + power) / 1e6, changed);
}

// A step reads the weights once, at a share of the bandwidth that is fitted to one request.
void Figures::serving() {
  const double file = weight_bytes(count(), kQ4_0Bits);
  const double row = 2.0 * count() / in_.rtx4090.fp16_flops;
  const double reading = 1.0 / kOneRequest - row;
  const double full = file / in_.rtx4090.memory_bytes_per_second;
  const auto rate = [&](double rows) { return rows / (reading + rows * row); };
  add("serving.one", "2 x 4090, 72B at 4 bits, one request", "tokens/s", rate(1.0),
      1.0 / (full + row),
      message_of("at the full bandwidth; the article's figure is that of ",
                 static_cast<std::uint32_t>(std::lround(100.0 * full / reading)),
                 " % of it, which is fitted to it and not measured"));
  mark(ArticleFigure::Kind::kFitted);
  add("serving.two", "two requests", "tokens/s", rate(2.0));
  add("serving.no_batching", "many requests, two slots and no continuous batching", "tokens/s",
      rate(2.0));
  add("serving.batching", "32 requests with continuous batching", "tokens/s", rate(32.0));
  note("at most: reading KV and the time between steps are not counted; the article has 300");
}

// The number of requests, and with it the speed, goes by the KV that weights leave.
void Figures::more_kv() {
  const auto gain = [&](double memory, double runtime) {
    return 100.0 * kMoreKv / (kEngineMemory * memory - engine_weights() - runtime);
  };
  add("serving.more_kv", "more speed with 500 MB more of KV", "%", gain(2.0 * 24.0 * kGB, 0.0),
      gain(2.0 * in_.rtx4090.memory_bytes, 2.0 * kRuntimeOfCard),
      "cards of 24 GiB, not GB, and 0.5 GB a card of runtime; the engine's 90 % of memory is "
      "assumed in both");
}

}  // namespace

double activation_bytes(double tokens, double batch, double hidden, double layers,
                        double tensor_parallel) {
  return tokens * batch * hidden * layers * (10.0 + 24.0 / tensor_parallel);
}

Training training_bytes(double parameters, double activations) {
  constexpr double kFp16Bytes = 2.0;
  constexpr double kFp32Bytes = 4.0;
  return {kFp16Bytes * parameters, kFp16Bytes * parameters, 3.0 * kFp32Bytes * parameters,
          activations};
}

double cards_for(double bytes, double each) {
  INVARIANT(each > 0.0, "a card has memory");
  return std::ceil(bytes / each);
}

std::vector<ArticleFigure> article_figures(const ArticleInputs& inputs) {
  INVARIANT(inputs.printed_4090.fp16_short_flops > 0.0 && inputs.h100.fp16_flops > 0.0,
            "the catalogue has the articles' cards");
  return Figures(inputs).all();
}

}  // namespace hearth::placement
