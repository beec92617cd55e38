// Rounds measured figures: those that differ no more than measurements of equal machines do become
// one figure. So equal machines get the same plan on every start.
#pragma once

#include "placement/problem.h"

namespace hearth::placement {

// Factors within which figures count as equal.
constexpr double kAlikeSeconds = 1.2;  // of nodes
constexpr double kAlikeLinks = 1.5;    // delays and rates of links

// The problem with each kind of figure (seconds of a step, of a layer and of the head; delays and
// rates of links) divided into groups: from the smallest figure on, all within its factor become
// their mean. Zeros, memory and the model are unchanged. O(n^2 log n) for n nodes.
Problem with_alike_figures(Problem problem);

}  // namespace hearth::placement
