// Figures that differ by no more than measurements of equal machines do become one figure, so that
// equal machines get the same plan on every start.
#pragma once

#include "placement/problem.h"

namespace hearth::placement {

// Factors within which figures are taken for equal.
constexpr double kAlikeSeconds = 1.2;  // of nodes
constexpr double kAlikeLinks = 1.5;    // delays and rates of links

// The problem with each kind of figure (seconds of a step, of a layer and of the head; delays and
// rates of links) gathered into groups: from the smallest figure on, those within the factor of it
// become the mean of the group. Zeros stay, as do memory and the model. O(n^2 log n) for n nodes.
Problem with_alike_figures(Problem problem);

}  // namespace hearth::placement
