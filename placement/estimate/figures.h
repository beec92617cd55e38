// Published figures of hardware and models, as cli/plan/catalogue reads them. Units: bytes,
// seconds, operations a second, watts, USD. A rate or a price of 0 is unknown.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hearth::placement {

// Rates are dense, without structured sparsity. Links count one direction.
struct Card {
  std::string key;                // "rtx4090"
  std::string title;              // "NVIDIA GeForce RTX 4090"
  double fp16_flops = 0.0;        // of matrix units, sums in FP32
  double fp16_short_flops = 0.0;  // the same, sums in FP16
  double int8_flops = 0.0;        // of matrix units, sums in INT32
  double fp32_flops = 0.0;        // of ordinary units
  double memory_bytes = 0.0;
  double memory_bytes_per_second = 0.0;
  double link_bytes_per_second = 0.0;  // to another card of the same machine
  double link_seconds = 0.0;           // of a small transfer on that link
  double watts = 0.0;
  double usd = 0.0;
  bool runs = false;                   // Hearth computes on it
  bool needs_server = false;           // it has no slot of a desktop
  bool whole_machine = false;          // power and price include the machine around it
  std::vector<std::string> unchecked;  // keys of figures that no document or table confirms
};

// Between machines.
struct Network {
  std::string key;  // "10g"
  double bytes_per_second = 0.0;
  double delay_seconds = 0.0;  // one way, of a small frame, with both protocol stacks
  double port_usd = 0.0;       // adapter and its share of a switch; of an adapter on board 0
  bool priced = false;
};

// A machine without its cards.
struct Host {
  std::string key;  // "desktop"
  std::uint32_t cards = 0;
  double watts = 0.0;
  double usd = 0.0;
  bool server = false;
};

// The host has places for the card.
inline bool takes(const Host& host, const Card& card) { return host.server || !card.needs_server; }

struct Electricity {
  std::string key;
  double usd_per_kwh = 0.0;
};

// A format of weights.
struct Quant {
  std::string key;    // "q4_k_m"
  std::string type;   // of most of its matrices, as GGUF names it: "Q4_K"
  double bits = 0.0;  // a weight, scales included
};

// A decoder of equal layers: attention over groups of heads, and a gated feed-forward or experts.
struct Shape {
  std::string key;           // "llama2-70b"
  std::string title;         // "Llama 2 70B"
  std::string architecture;  // as GGUF files name the family: "llama"
  std::uint32_t layers = 0;
  std::uint32_t hidden = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t feed_forward = 0;         // width, of each expert where there are any
  std::uint32_t experts = 0;              // of a layer; 0: one feed-forward
  std::uint32_t experts_used = 0;         // of them by a row
  std::uint32_t shared_feed_forward = 0;  // width of the expert of every row
  std::uint32_t vocabulary = 0;
  std::uint32_t context = 0;
  bool tied = false;                  // embedding and head are one matrix
  double published_parameters = 0.0;  // as its makers count them; only tests read it
};

// What a layer and a model have of weights. `rows`: of one step; more rows read more of the
// experts, under the assumption that each row chooses its experts at random.
double attention_parameters(const Shape& shape);
double layer_parameters(const Shape& shape);
double layer_parameters_read(const Shape& shape, double rows);
double layer_parameters_used(const Shape& shape);  // by one row, in multiplications
double head_parameters(const Shape& shape);        // vocabulary * hidden
double parameters(const Shape& shape);

}  // namespace hearth::placement
