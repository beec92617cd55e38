#include "placement/estimate/mixed.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "placement/estimate/memory.h"

namespace hearth::placement {
namespace {

// Where a card stands.
struct Place {
  const Card* card = nullptr;
  std::uint32_t machine = 0;
};

std::vector<Place> places_of(std::span<const CardSet> sets, std::uint32_t cards_per_machine) {
  std::vector<Place> places;
  std::uint32_t machines = 0;
  std::uint32_t in_last = cards_per_machine;  // of a machine that takes several cards
  std::uint32_t last = 0;
  for (const CardSet& set : sets) {
    for (std::uint32_t i = 0; i < set.count; ++i) {
      if (set.card.whole_machine) {
        places.push_back({&set.card, machines++});
        continue;
      }
      if (in_last == cards_per_machine) {
        last = machines++;
        in_last = 0;
      }
      ++in_last;
      places.push_back({&set.card, last});
    }
  }
  return places;
}

Model model_of(const EstimateInput& setup) {
  const Shape& shape = setup.shape;
  const auto bytes = [&](double parameters) {
    return static_cast<std::uint64_t>(weight_bytes(parameters, setup.weight_bits));
  };
  Model model;
  model.layer_bytes.assign(shape.layers, bytes(layer_parameters(shape)));
  if (shape.experts > 0) {
    model.layer_read_bytes.assign(shape.layers, bytes(layer_parameters_read(shape, 1.0)));
  }
  model.embedding_bytes = bytes(head_parameters(shape));
  model.head_bytes = model.embedding_bytes;
  model.activation_bytes = static_cast<std::uint64_t>(row_bytes(shape));
  model.kv_bytes = static_cast<std::uint64_t>(kv_bytes_int8(shape));
  return model;
}

Node node_of(const EstimateInput& setup, std::string name, double rows) {
  Node node;
  node.name = std::move(name);
  node.layer = {layer_seconds(setup, 1.0), layer_seconds(setup, rows)};
  node.head = {head_seconds(setup, 1.0), head_seconds(setup, rows)};
  const double left = setup.card.memory_bytes - reserved_bytes(setup);
  node.memory_bytes = static_cast<std::uint64_t>(std::max(0.0, left));
  return node;
}

Link link_of(const EstimateInput& setup, const Place& from, const Place& to) {
  if (from.machine != to.machine) {
    return {setup.network.delay_seconds, setup.network.bytes_per_second};
  }
  return {std::max(from.card->link_seconds, to.card->link_seconds),
          std::min(from.card->link_bytes_per_second, to.card->link_bytes_per_second)};
}

}  // namespace

Problem problem_of(EstimateInput setup, std::span<const CardSet> sets) {
  INVARIANT(setup.cards_per_machine >= 1, "a machine has a place for a card");
  Problem problem;
  problem.model = model_of(setup);
  problem.batch_rows = std::max(setup.batch, kProblemRowsLeast);
  problem.kv_tokens = setup.context;
  for (const CardSet& set : sets) {
    setup.card = set.card;
    for (std::uint32_t i = 1; i <= set.count; ++i) {
      problem.nodes.push_back(
          node_of(setup, set.card.key + "-" + std::to_string(i), problem.batch_rows));
    }
  }
  const std::vector<Place> places = places_of(sets, setup.cards_per_machine);
  problem.links.reserve(places.size() * places.size());
  for (const Place& from : places) {
    for (const Place& to : places) problem.links.push_back(link_of(setup, from, to));
  }
  return problem;
}

}  // namespace hearth::placement
