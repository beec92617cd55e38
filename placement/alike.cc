#include "placement/alike.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "base/check.h"

namespace hearth::placement {
namespace {

void gather(std::vector<double*> figures, double factor) {
  INVARIANT(factor >= 1.0, "a figure is alike to itself");
  std::erase_if(figures, [](const double* figure) { return *figure <= 0.0; });
  std::ranges::sort(figures, {}, [](const double* figure) { return *figure; });
  for (auto begin = figures.begin(); begin != figures.end();) {
    const double most = **begin * factor;
    double sum = 0.0;
    auto end = begin;
    while (end != figures.end() && **end <= most) sum += **end++;
    const double mean = sum / static_cast<double>(end - begin);
    for (; begin != end; ++begin) **begin = mean;
  }
}

template <typename Of>
void gather_nodes(Problem& problem, Of of) {
  std::vector<double*> figures;
  for (Node& node : problem.nodes) figures.push_back(&std::invoke(of, node));
  gather(std::move(figures), kAlikeSeconds);
}

}  // namespace

Problem with_alike_figures(Problem problem) {
  gather_nodes(problem, &Node::step_seconds);
  gather_nodes(problem, [](Node& node) -> double& { return node.layer.one; });
  gather_nodes(problem, [](Node& node) -> double& { return node.layer.batch; });
  gather_nodes(problem, [](Node& node) -> double& { return node.head.one; });
  gather_nodes(problem, [](Node& node) -> double& { return node.head.batch; });
  std::vector<double*> delays;
  std::vector<double*> rates;
  for (Link& link : problem.links) {
    delays.push_back(&link.delay_seconds);
    rates.push_back(&link.bytes_per_second);
  }
  gather(std::move(delays), kAlikeLinks);
  gather(std::move(rates), kAlikeLinks);
  return problem;
}

}  // namespace hearth::placement
