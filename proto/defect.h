// Planted defects of the swarm: typical mistakes of failover, one at a time. tests/defects/swarm
// shows that the simulation finds each. Only a build with -DHEARTH_SWARM_DEFECTS=ON has them, all
// at once, and `sim --defect N` plants one; in any other build planted() is a constant, and the
// compiler drops what depends on it.
#pragma once

namespace hearth {

// One line each: number, what it does.
enum class SwarmDefect : int {
  kNone = 0,
  kStaleBatchTaken = 1,        // a stage does not drop a step of a lost pipeline
  kStaleTokensTaken = 2,       // the first stage does not drop tokens of a lost pipeline
  kStaleAnswerTaken = 3,       // the coordinator does not drop tokens of a lost pipeline
  kReplayOneShort = 4,         // a sequence goes on without its newest token
  kAnswerForgotten = 5,        // a sequence goes on from its prompt alone
  kAnswerAsPrompt = 6,         // the generated tokens count as prompt: penalties, length, positions
  kSeedAnew = 7,               // a sequence goes on with another seed
  kTokenTwice = 8,             // the newest token is sent again when a sequence goes on
  kTokenLost = 9,              // the first token after a loss is not sent
  kReservationKept = 10,       // the KV pages of a sequence that has ended are not given back
  kKvKept = 11,                // a stage keeps its sequences when its pipeline ends
  kHashesKept = 12,            // hashes of the lost pipeline stay beside those of the next one
  kInterruptedForgotten = 13,  // the sequences of a lost pipeline are neither reported nor resumed
  kRowBeforeReplayed = 14,     // the kept output of a row is sent as that of the next row
  kOneUnitOff = 15,            // in some rows a stage sends one activation one unit off
  kOneUnitOnce = 16,           // the same, in one row of all
  kOneUnitContested = 17,      // the same, and the accused worker contests it
};

// With kOneUnitOff: one of so many positions is wrong, by the lowest bit of its first activation.
inline constexpr int kLieEvery = 16;
inline constexpr int kLieAt = 9;

#ifdef HEARTH_SWARM_DEFECTS
inline SwarmDefect planted_swarm_defect = SwarmDefect::kNone;
inline bool planted(SwarmDefect defect) { return planted_swarm_defect == defect; }
#else
constexpr bool planted(SwarmDefect) { return false; }
#endif

}  // namespace hearth
