// Every bound of the program, with the relations between them checked by the compiler.
// An error that refuses a user's input names the limit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hearth::limits {

inline constexpr std::size_t kKiB = 1024;
inline constexpr std::size_t kMiB = 1024 * kKiB;
inline constexpr std::size_t kGiB = 1024 * kMiB;

// GGUF files (model/gguf/gguf.h).
inline constexpr std::uint64_t kGgufKeyValues = 65'536;
inline constexpr std::uint64_t kGgufTensors = 65'536;
inline constexpr std::size_t kGgufKeyBytes = 65'535;
inline constexpr std::size_t kGgufTensorNameBytes = 63;  // ggml keeps 64 with the closing NUL
inline constexpr std::size_t kGgufStringBytes = 16 * kMiB;
inline constexpr std::uint64_t kGgufArrayItems = 8'000'000;  // all arrays of a file together
inline constexpr std::size_t kGgufHeaderBytes = 256 * kMiB;  // everything before the tensor data
inline constexpr std::uint64_t kGgufParts = 256;             // files of one model
inline constexpr std::uint32_t kGgufDims = 4;
inline constexpr std::uint32_t kGgufAlignmentMin = 8;
inline constexpr std::uint32_t kGgufAlignmentMax = 65'536;

// Model shapes (model/spec.h).
inline constexpr std::uint32_t kModelLayers = 512;
inline constexpr std::uint32_t kModelWidth = 32'768;  // hidden size
inline constexpr std::uint32_t kModelFeedForward = 262'144;
inline constexpr std::uint32_t kModelExperts = 1024;    // of a layer
inline constexpr std::uint32_t kModelExpertsUsed = 32;  // of them by a row
inline constexpr std::uint32_t kModelHeads = 512;
inline constexpr std::uint32_t kModelHeadDim = 512;
inline constexpr std::uint32_t kModelLatent = 1024;  // values of which keys and values are made
inline constexpr std::uint32_t kModelTaps = 16;      // of a short convolution
inline constexpr std::uint32_t kModelContext = 1'048'576;
inline constexpr std::uint32_t kVocabulary = 1'048'576;
inline constexpr std::size_t kModelNameBytes = 256;
inline constexpr double kRopeBase = 1e12;             // and above 1
inline constexpr double kRopeScale = 65'536.0;        // divisors of a frequency: 1/65536 to 65536
inline constexpr double kRopeFactor = 0x1p100;        // those of single pairs: writers of "no turn"
                                                      // give 1e30
inline constexpr std::size_t kTokenBytes = 4 * kKiB;  // bytes of one vocabulary entry

// Text (model/text/tokenizer.h, model/chat_template.h).
inline constexpr std::size_t kTextBytes = 8 * kMiB;
inline constexpr std::size_t kTemplateBytes = 1 * kMiB;
inline constexpr std::uint64_t kTemplateSteps = 2'000'000;
inline constexpr std::uint64_t kTemplateMessageSteps = 10'000;  // more, for each message
inline constexpr std::size_t kTemplateOutputBytes = 16 * kMiB;
inline constexpr std::size_t kTemplateWorkBytes = 256 * kMiB;  // all that a rendering creates
inline constexpr std::uint32_t kTemplateDepth = 64;

// Grammars (model/grammar/grammar.h).
inline constexpr std::size_t kGrammarSourceBytes = 256 * kKiB;
inline constexpr std::size_t kGrammarBytes = 64 * kKiB;  // compiled, as it travels
inline constexpr std::uint32_t kGrammarStates = 16'384;  // of one automaton, and of a grammar
inline constexpr std::uint32_t kGrammarRules = 4'096;
inline constexpr std::uint32_t kGrammarRepeat = 65'535;  // of a count that is not "any number"
inline constexpr std::uint32_t kGrammarNesting = 64;     // of a source: brackets, groups, keywords
inline constexpr std::uint64_t kGrammarSteps = 8'000'000;
// At one position of an answer: the alternatives that are followed at a time, and their nesting.
inline constexpr std::uint32_t kGrammarStacks = 32;
inline constexpr std::uint32_t kGrammarVisits = 256;
inline constexpr std::uint32_t kGrammarDepth = 128;
// Masks that are kept for one grammar, then all are dropped and made anew.
inline constexpr std::size_t kGrammarMaskBytes = 16 * kMiB;

// Compiled grammars that a server keeps for a model's later requests.
inline constexpr std::size_t kKeptGrammars = 64;

// Tools (model/chat/).
inline constexpr std::uint32_t kTools = 512;  // of a request, and arguments of a call
inline constexpr std::size_t kToolNameBytes = 256;
inline constexpr std::size_t kToolCallBytes = 2 * kMiB;    // of one call; what is longer is text
inline constexpr std::size_t kPromptTailBytes = 4 * kKiB;  // of a prompt that an answer continues
inline constexpr std::size_t kToolsBytes = 1 * kMiB;       // of a kept request, all together
inline constexpr std::uint32_t kToolCalls = 256;           // of one message

// One step batch (proto/step.h) and its frame (proto/frame.h).
inline constexpr std::uint32_t kBatchRows = 512;
inline constexpr std::uint32_t kDraftRows = 32;  // of a sequence in a step, behind the drawn one
inline constexpr std::uint32_t kItlTargetMilliseconds = 60'000;  // between two tokens of an answer
inline constexpr std::uint32_t kBatchOpens = 256;
inline constexpr std::uint32_t kBatchTruncates = 512;
inline constexpr std::uint32_t kBatchReleases = 4'096;
inline constexpr std::size_t kFrameBytes = 64 * kMiB;
// Frames that are being sent, and received: of one peer, then back-pressure, and of all links.
inline constexpr std::size_t kSendQueueBytes = 128 * kMiB;
inline constexpr std::size_t kLinksBytes = 512 * kMiB;
inline constexpr std::uint32_t kConnections = 256;         // per data listener
inline constexpr std::uint32_t kLinksOfPeer = 32;          // incoming ones of one peer
inline constexpr std::uint32_t kFirstFrameSeconds = 5;     // for an incoming link to say hello
inline constexpr std::uint32_t kLinkStallSeconds = 30;     // a frame that stops half-way
inline constexpr std::size_t kReadStepBytes = 256 * kKiB;  // payload taken on a peer's word
inline constexpr std::size_t kNodeNameBytes = 128;         // printable ASCII
inline constexpr std::size_t kAddressBytes = 256;          // "host:port"
inline constexpr std::size_t kReasonBytes = 1 * kKiB;      // of a refusal or failure, one sentence

// Links that one side cannot dial (proto/link/tickets.h, proto/link/relay.h).
inline constexpr std::uint32_t kTickets = 1'024;              // that a listener expects
inline constexpr std::uint32_t kTicketSeconds = 10;           // to show one
inline constexpr std::uint32_t kRelayedLinks = 256;           // of one relay
inline constexpr std::uint32_t kRelayedLinksOfNode = 32;      // of those, that one node dials
inline constexpr std::size_t kRelayBufferBytes = 256 * kKiB;  // of a link, in each direction
inline constexpr std::uint32_t kRelayIdleSeconds = 30;        // without a byte, then the link ends
inline constexpr std::uint32_t kBriefLinks = kRelayedLinks / 4;  // of one relay, for commands
inline constexpr std::uint32_t kBriefLinksOfNode = 4;            // of those, that one node dials
inline constexpr std::uint32_t kBriefLinkSeconds = 60;           // then such a link ends
inline constexpr std::uint32_t kPunches = 64;                    // that a coordinator arranges
inline constexpr std::uint32_t kPunchesOfNode = 8;               // of those, that one node dials
inline constexpr std::uint32_t kPunchesHere = 16;                // under way in one process
inline constexpr std::uint32_t kPunchTries = 8;                  // to connect, of one punch
inline constexpr std::uint16_t kPunchPortLeast = 1'024;          // that is connected to
inline constexpr std::size_t kPunchAddressBytes = 64;            // of the address in an answer
inline constexpr std::uint32_t kRelayMegabits = 100'000;   // a second, that a relay may be given
inline constexpr std::uint32_t kOwnRelayMegabits = 1'000;  // of the coordinator's relay, by default

// A server or a worker (cli/process/own_process.h). All connections that it may hold fit the files.
inline constexpr std::uint32_t kDescriptors = 8'192;
inline constexpr std::uint32_t kDescriptorsLeast = 64;
inline constexpr std::uint32_t kThreadsLeast = 16;

// One engine (node/engine/engine.h).
inline constexpr std::uint32_t kComputeThreads = 256;
inline constexpr std::uint32_t kRanks = 8;              // that compute a stage together
inline constexpr std::uint32_t kRankSeconds = 30;       // that a rank waits for the part of another
inline constexpr std::uint32_t kRankStepSeconds = 120;  // likewise, of all its parts of one step
inline constexpr std::uint32_t kRankFrames = 4;  // of one rank that wait for another to read them
inline constexpr std::size_t kRankBytes = 2 * kFrameBytes + kMiB;  // likewise, of several

// Sampling and stopping (proto/step.h, coordinator/api.h).
inline constexpr std::uint32_t kLogitBias = 1'024;
inline constexpr std::uint32_t kTopLogprobs = 20;
inline constexpr std::uint32_t kScoredTokens = 8'192;      // of a prompt whose tokens are scored
inline constexpr std::uint32_t kScores = 512 * 1'024;      // of a request: tokens and alternatives
inline constexpr std::uint32_t kEmbeddingValues = 16'384;  // of one embedding
inline constexpr std::uint32_t kStopStrings = 16;
inline constexpr std::size_t kStopStringBytes = 512;
inline constexpr std::uint32_t kStopTokens = 64;
inline constexpr std::uint32_t kChoices = 8;

// Obtaining a model (model/gguf/manifest.h, node/layers/model_fetch.h).
inline constexpr std::size_t kManifestBytes = 16 * kMiB;
inline constexpr std::size_t kManifestSources = 8;
inline constexpr std::size_t kSourceBytes = 2 * kKiB;
inline constexpr std::size_t kFetchJournalBytes = 64 * kMiB;
inline constexpr std::uint32_t kFetchConnections = 16;
inline constexpr std::uint32_t kFetchSources = 64;
inline constexpr std::uint64_t kModelFileBytes = std::uint64_t{1} << 44;

// Pieces of a model between nodes (proto/piece.h, node/layers/piece_server.h,
// node/layers/peer_source.h).
inline constexpr std::size_t kPieceBytes = 64 * kKiB;
inline constexpr std::uint32_t kPieceRequests = 4;  // of a link that wait for their answers
inline constexpr std::uint32_t kPieceLinks = 64;    // that a node serves at a time
inline constexpr std::uint32_t kPieceIdleSeconds =
    10;                                        // of a silent link, then another may take its place
inline constexpr std::uint32_t kHolders = 16;  // that a joining machine is told of
// "tensor NAME", of bytes that a holder sent and that are wrong (proto/wrong_bytes.h).
inline constexpr std::size_t kWrongItemBytes = 7 + kGgufTensorNameBytes;
inline constexpr std::uint32_t kWrongBytesTold = kHolders;  // by a node at once
inline constexpr std::uint32_t kAccusers = 16;              // of a holder, remembered

// Pipelines and scheduling (coordinator/).
inline constexpr std::uint32_t kStages = 512;
inline constexpr std::uint32_t kWorkers = 1'024;
inline constexpr std::uint32_t kRunningSequences = 4'096;
// Of a stage whose sequences keep a state, where no number is asked for.
inline constexpr std::uint64_t kSequenceStates = 64;
inline constexpr std::uint32_t kWaitingSequences = 512;
inline constexpr std::uint32_t kServedModels = 64;  // of one server
// A coordinator's first epoch is its clock in seconds times this, so no two starts have the same
// one.
inline constexpr std::uint64_t kEpochsOfSecond = std::uint64_t{1} << 20;
// The greatest lead over the first epoch that a coordinator accepts from a worker; it covers a
// clock that was 136 years ahead. A false report does no lasting harm, because a later start has a
// higher bound.
inline constexpr std::uint64_t kEpochLead = kEpochsOfSecond << 32;

// Placement by what was measured (placement/problem.h, coordinator/workers/link_book.h,
// cli/plan/nodes_file.h).
inline constexpr std::uint32_t kExactNodes = 16;  // of which every order and split is searched
inline constexpr std::size_t kLinkedNodes = 32;   // n nodes have n^2 links
inline constexpr std::size_t kNodesFileBytes = 4 * kMiB;
inline constexpr double kPlacedSeconds = 1e4;  // of a step, a layer, a head or a link
inline constexpr double kLayerSecondsLeast = 1e-9;
inline constexpr double kLinkBytesPerSecond = 1e15;
inline constexpr std::uint64_t kPlacedBytes = std::uint64_t{1} << 50;  // of a node, or of a layer
inline constexpr std::uint64_t kPlacedKvBytes = kMiB;                  // of a position in a layer
inline constexpr std::uint64_t kPlacedTokens = std::uint64_t{1} << 32;

// Sets of GPUs that the user does not have yet (placement/estimate, cli/plan/forecast.h).
inline constexpr std::uint32_t kPlannedCards = 1'024;
inline constexpr std::uint32_t kBoughtCards = 64;  // of a set that `hearth plan --for` considers
inline constexpr std::uint64_t kPlannedUsers = 1'000'000;
inline constexpr double kPlannedUsd = 1e9;
inline constexpr double kPlannedRate = 1e6;  // tokens a second of a user

// HTTP (coordinator/http/).
inline constexpr std::size_t kHttpHeaderBytes = 32 * kKiB;
inline constexpr std::size_t kHttpBodyBytes = 8 * kMiB;
inline constexpr std::uint32_t kHttpConnections = 512;
inline constexpr std::uint32_t kHttpProbeConnections = 32;  // beyond those, for probes alone
inline constexpr std::uint32_t kHttpSecondsProbe = 2;       // to send the head on one of them
inline constexpr std::uint32_t kHttpSecondsHeader = 10;     // to send the whole header
inline constexpr std::uint32_t kHttpSecondsBody = 10;       // then, and after each as many more,
inline constexpr std::size_t kHttpBodyBytesPerSecond = 16 * kKiB;  // a body has brought so many
inline constexpr std::uint32_t kJsonDepth = 64;
inline constexpr std::uint32_t kMessages = 4'096;
inline constexpr std::uint32_t kPrompts = 64;                // of one /v1/completions request
inline constexpr std::uint32_t kHttpSequences = 128;         // prompts times n of one request
inline constexpr std::uint32_t kDefaultMaxTokens = 4'096;    // of a chat that names no limit
inline constexpr std::uint32_t kJsonValues = 500'000;        // objects, arrays, scalars of one body
inline constexpr std::size_t kHttpReadBytes = 64 * kKiB;     // unparsed bytes of one connection
inline constexpr std::size_t kHttpBodiesBytes = 256 * kMiB;  // all bodies and answers in memory
inline constexpr std::size_t kHttpLightBytes = 128 * kKiB;   // of a body that is quickly read
inline constexpr std::size_t kHttpStreamBytes = 1 * kMiB;    // unread events, then cut off
inline constexpr std::uint32_t kHttpSecondsIdle = 75;        // between requests of a connection
inline constexpr std::uint32_t kHttpSecondsWrite = 30;       // without a byte taken by the client
inline constexpr std::uint32_t kHttpSecondsStatus = 5;       // for the coordinator's own status
inline constexpr std::uint32_t kHttpSecondsPing = 10;        // silence of a stream before `: ping`

// Limits of what a client accepts from a server.
inline constexpr std::size_t kClientBodyBytes = 64 * kMiB;  // a body, or one server-sent event

// Kept requests, which a client may resume (coordinator/http/api/kept_requests.h).
inline constexpr std::size_t kIdempotencyKeyBytes = 255;
inline constexpr std::size_t kLastEventIdBytes = 2 * kKiB;
inline constexpr std::size_t kKeptRequests = 1'024;          // running and finished
inline constexpr std::size_t kKeptRequestsOwner = 256;       // of those, of one API key
inline constexpr std::size_t kKeptBytes = 64 * kMiB;         // of the finished, then the oldest go
inline constexpr std::size_t kKeptRequestBytes = 4 * kMiB;   // of one, to be written to disk
inline constexpr std::size_t kKeptTokensBytes = 128 * kKiB;  // of its tokens in one row
inline constexpr std::size_t kJournalBytes = 16 * kMiB;      // that wait for the disk
inline constexpr std::uint32_t kHttpSecondsKept = 600;       // a finished answer
inline constexpr std::uint32_t kHttpSecondsGrace = 10;       // a running one without a client
inline constexpr std::uint32_t kHttpSecondsResume = 60;      // for a pipeline, after a restart

// The store in PostgreSQL (coordinator/store/). A call of the main thread waits for the store at
// most as long as this, which is less than it takes for a worker to count as lost.
inline constexpr std::size_t kStoreUrlBytes = 2 * kKiB;
inline constexpr std::uint32_t kStoreMilliseconds = 1'000;

// Identity (proto/roster.h, proto/link/tls.h).
inline constexpr std::uint32_t kRosterEntries = 2'048;
inline constexpr std::uint32_t kRosterAddresses = 4;  // of one node
inline constexpr std::size_t kRosterBytes = 3 * kMiB;
inline constexpr std::size_t kCertificateBytes = 4 * kKiB;   // ours have about 300
inline constexpr std::uint32_t kHandshakes = 64;             // under way, of incoming links
inline constexpr std::uint32_t kHandshakesAddress = 16;      // of those, from one address
inline constexpr std::uint32_t kHandshakesBurst = 64;        // from one address at once, then
inline constexpr std::uint32_t kHandshakesPerSecond = 16;    // so many
inline constexpr std::uint32_t kHandshakeAddresses = 1'024;  // remembered for the above
inline constexpr std::uint32_t kHandshakeSeconds = 5;
inline constexpr std::size_t kTlsKeyBytes = 64 * kGiB;  // AES-GCM allows some 360 GiB (RFC 8446)

// Join tokens and API keys (coordinator/membership/credentials.h).
inline constexpr std::uint32_t kTokenSeconds = 366 * 24 * 3'600;
inline constexpr std::uint32_t kTokenUses = 10'000;
inline constexpr std::size_t kApiKeyNameBytes = 128;
inline constexpr std::size_t kQrTextBytes = 1'024;  // of a QR code; no join token is longer
inline constexpr std::size_t kApiKeyModels = 64;
inline constexpr std::uint32_t kApiKeyRate = 1'000'000;  // requests a minute
inline constexpr std::size_t kApiKeyBuckets = 4'096;     // then those that are full again go

// Control plane (coordinator/control/service.h).
inline constexpr std::size_t kControlMessageBytes = 4 * kMiB;
inline constexpr std::size_t kControlMemoryBytes = 256 * kMiB;  // of gRPC, for all connections
inline constexpr std::size_t kComputeQueue = 1'024;             // steps that wait for an engine
inline constexpr std::size_t kControlQueueBytes = 16 * kMiB;    // per session, then it is closed
// The most bytes that the coordinator accepts from a gRPC connection in all, and of a worker's
// message.
inline constexpr std::size_t kControlStrangerBytes = 32 * kKiB;
inline constexpr std::size_t kControlWorkerBytes = 64 * kKiB;  // 512 rows' hashes have 41 KiB

// The ledger's log (ledger/log.h).
inline constexpr std::uint64_t kLogEntries = std::uint64_t{1} << 40;
inline constexpr std::size_t kLogEntryBytes = 65'535;  // C2SP tlog-tiles: a length of two bytes
inline constexpr std::size_t kLogBatch = 65'536;       // entries of one append
inline constexpr std::uint64_t kLogFreeBytes = kGiB;  // free on its disk; below it the server warns
inline constexpr std::size_t kNoteBytes = 128 * kKiB;
inline constexpr std::size_t kNoteSignatures = 64;

// A release manifest (cli/doctor/release.h), which is a note.
inline constexpr std::size_t kReleaseFiles = 64;
inline constexpr std::size_t kReleaseNameBytes = 128;  // of a file
inline constexpr std::size_t kReleaseTextBytes = 512;  // its one sentence for people
inline constexpr std::uint64_t kReleaseFileBytes = 64 * kGiB;

// Receipts on their way (node/proof/receipt_maker.h, coordinator/proof/receipt_collector.h).
inline constexpr std::uint32_t kWindowPositions = 4'096;  // of a receipt; the last has what is left
inline constexpr std::uint32_t kReceiptBatch = 64;        // windows in one control message
inline constexpr std::uint32_t kReceiptsAsked = 128;      // receipts, which are shorter
inline constexpr std::size_t kReceiptWindows = 8'192;     // of a worker that wait for signatures
inline constexpr std::size_t kReceiptClaims = 2'048;      // of those, that are still to be claimed
inline constexpr std::size_t kReceiptRequests = 8'192;    // at the coordinator, running or waiting
inline constexpr std::size_t kReceiptsSeen = 1'000'000;   // names of an hour, the newest
inline constexpr std::size_t kReceiptQueueBytes = 64 * kMiB;  // that wait for a thread
inline constexpr std::uint32_t kReceiptSeconds = 30;  // from a request's end to its receipts
inline constexpr std::size_t kBuildBytes = 64;        // a program's name in receipts

// Joining, and measuring a link.
inline constexpr std::uint32_t kWaitingNodes = 32;        // that wait for a person to let them in
inline constexpr std::uint32_t kWaitingNodesAddress = 4;  // of those, from one address
inline constexpr std::uint32_t kWaitingSeconds = 60;      // after its last request
inline constexpr std::uint32_t kDoorSeconds = 600;        // to ask, after hearth approve opens it
inline constexpr std::size_t kFoundClusters = 64;         // that a network announces
inline constexpr std::size_t kPingBytes = 1024 * 1024;    // of a ping, and of its answer
inline constexpr std::uint32_t kPings = 16;               // of a link that wait for their answers
inline constexpr std::uint32_t kDialBacks = 64;           // under way or remembered
inline constexpr std::uint32_t kDialBackSeconds = 10;     // that one is remembered

static_assert(kBatchRows * std::size_t{kModelWidth} * 2 < kFrameBytes,
              "a full batch of the widest model fits one frame");
static_assert(kFrameBytes < kSendQueueBytes, "at least one frame fits a send queue");
static_assert(kBatchOpens * (kGrammarBytes + kScoredTokens * sizeof(std::int32_t) + 16 * kKiB) +
                      kBatchRows * std::size_t{kModelWidth} * 2 <
                  kFrameBytes,
              "a batch of opens with grammars and scored prompts and of activations fits a frame");
static_assert(kBatchRows * (kEmbeddingValues * sizeof(float) + kTopLogprobs * 32) <
                  kFrameBytes - kMiB,
              "the embeddings of a full batch, and its tokens, fit a frame");
static_assert(kSendQueueBytes <= kLinksBytes / 4, "one peer leaves room to others");
static_assert(kFetchConnections < kLinksOfPeer && kLinksOfPeer < kConnections,
              "a peer that fetches a model has links left, and leaves links to others");
static_assert(kPings * kPingBytes < kSendQueueBytes, "the pings of a link fit its peer's share");
static_assert(kControlMessageBytes < kControlQueueBytes, "at least one message fits a queue");
static_assert(kControlStrangerBytes < kControlWorkerBytes &&
                  kControlWorkerBytes < kControlMessageBytes && kControlMessageBytes < kFrameBytes,
              "an unauthenticated peer may send less than a worker, whose messages are frames");
static_assert(kWrongBytesTold * (kWrongItemBytes + kNodeNameBytes + 128) < kControlWorkerBytes,
              "all that a worker may say of others at once fits a message");
static_assert(kRosterEntries > kWorkers && kRosterBytes < kControlMessageBytes,
              "every worker has an entry, and any roster travels in one message");
static_assert(kRosterEntries * (35 + kNodeNameBytes + kRosterAddresses * (2 + kAddressBytes)) <
                  kRosterBytes,
              "a roster of the longest entries is within its bytes");
static_assert(kHandshakesAddress < kHandshakes && kHandshakes < kConnections,
              "one address takes neither all handshakes nor all links");
static_assert(kTextBytes >= kHttpBodyBytes, "any accepted body can be tokenised");
static_assert(kHttpHeaderBytes < kHttpReadBytes, "a whole header fits the read buffer");
static_assert(kPrompts <= kHttpSequences && kChoices <= kHttpSequences, "each alone is allowed");
static_assert(kLastEventIdBytes > 16 + 1 + kHttpSequences * 8 + 1 && kModelContext < 9'999'999,
              "the longest event id, of as many choices as there may be, is read again");
static_assert(kBatchRows * (32 + kTopLogprobs * 8) < kKeptTokensBytes,
              "a full batch of tokens with every alternative fits a row");
static_assert(kKeptRequestBytes < kJournalBytes && kJournalBytes < kKeptBytes,
              "any request that is kept can be written");
static_assert(kGgufStringBytes < kGgufHeaderBytes, "the longest string fits a header");
static_assert(kGgufArrayItems > 4 * std::uint64_t{kVocabulary},
              "tokens, scores, types and merges of the largest vocabulary fit the array limit");
static_assert(kTextBytes <= kTemplateOutputBytes && kTemplateOutputBytes <= kTemplateWorkBytes,
              "any accepted body can be rendered");
static_assert(kStages <= kModelLayers, "every stage has a layer");
static_assert(kGgufAlignmentMin <= kGgufAlignmentMax &&
                  (kGgufAlignmentMin & (kGgufAlignmentMin - 1)) == 0 &&
                  (kGgufAlignmentMax & (kGgufAlignmentMax - 1)) == 0,
              "alignments are powers of two");
static_assert(kTokenBytes < kGgufStringBytes && kTemplateBytes < kGgufStringBytes &&
                  kGgufTensorNameBytes < kGgufKeyBytes,
              "a vocabulary entry, a template and a name are strings of a file");
static_assert(std::uint64_t{kModelHeads} * kModelHeadDim <= ~std::uint32_t{0} &&
                  kModelHeads * kModelHeadDim >= kModelWidth,
              "all heads together have a width of 32 bits");
static_assert(std::uint64_t{kModelExperts} * kModelFeedForward <= ~std::uint32_t{0} &&
                  kModelExpertsUsed <= kModelExperts && kModelWidth <= kModelFeedForward,
              "all experts together have rows of 32 bits");
static_assert(std::uint64_t{kBatchRows} * kModelExpertsUsed <= ~std::uint32_t{0},
              "a batch has 32 bits of rows for its experts");
static_assert(kManifestBytes > kGgufTensors * (2 + kGgufTensorNameBytes + 8 + 8 + 32) +
                                   kManifestSources * (2 + kSourceBytes),
              "a manifest of the most tensors is within its bytes");
static_assert(kPieceBytes * kPieceRequests < kSendQueueBytes && kPieceBytes < kFrameBytes,
              "the pieces that a link asks for fit its queue");
static_assert(kPieceLinks < kConnections, "links for pieces leave room for links of pipelines");
static_assert(kBatchOpens <= kBatchRows && kRunningSequences <= kBatchReleases,
              "a batch opens a sequence a row, and can release all that run");
static_assert(kWindowPositions >= kBatchRows, "a batch lies in at most two windows");
static_assert(kReceiptBatch <= kReceiptWindows && kReceiptRequests / 2 >= kRunningSequences,
              "receipts wait for every running sequence, though one key has them all");
static_assert(kReceiptsAsked * std::size_t{448 + 8} < kControlWorkerBytes,
              "a worker's receipts fit a message");
static_assert(kReceiptClaims <= kReceiptWindows / 4,
              "a window is claimed long before it gives way to newer ones");
static_assert(kHttpLightBytes < kHttpBodyBytes && kHttpBodyBytes < kHttpBodiesBytes,
              "several bodies are received at a time");
static_assert(2 * (kHttpConnections + kHttpProbeConnections + kWorkers + 3 * kConnections +
                   kRelayedLinks + 2 * kPunches) <
                  kDescriptors,
              "every connection of each kind has a descriptor");
static_assert(kHttpProbeConnections < kHttpConnections, "probes are few");
static_assert(kRelayedLinksOfNode < kRelayedLinks && kPunchesOfNode < kPunches &&
                  2 * kRelayedLinks + 4 * kPunches <= kTickets,
              "one node does not take all relayed or punched links, which all have tickets");
static_assert(kHandshakeSeconds < kTicketSeconds, "a ticket outlives the handshake that shows it");
static_assert(kStopStrings * kStopStringBytes < kHttpBodyBytes, "all stop strings fit a body");
static_assert(kIdempotencyKeyBytes + kLastEventIdBytes < kHttpHeaderBytes,
              "both ids of a kept request fit a header");
static_assert(kKeptRequestsOwner < kKeptRequests, "one key does not take all kept requests");
static_assert(kWaitingNodesAddress < kWaitingNodes, "one address does not take all places");
static_assert(kHandshakeSeconds <= kFirstFrameSeconds && kFirstFrameSeconds < kLinkStallSeconds,
              "a link that says nothing ends before one that stalls");
static_assert(kDefaultMaxTokens <= kModelContext, "the usual limit is within any context");
static_assert(kLogEntryBytes <= 0xffff, "the length of an entry has two bytes");
static_assert(kExactNodes <= kLinkedNodes && kLinkedNodes <= kWorkers,
              "the ways between nodes that are searched are measured");
static_assert(kPlacedBytes <= (~std::uint64_t{0} >> 1) / (2 * (kModelLayers + 2)),
              "the bytes and the states of all layers are a number of 64 bits");
static_assert(kPlacedTokens <= (~std::uint64_t{0} >> 1) / (kPlacedKvBytes * kModelLayers),
              "and so is their KV");

}  // namespace hearth::limits
