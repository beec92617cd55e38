#include "ledger/tiles.h"

#include <gtest/gtest.h>

namespace hearth::ledger {
namespace {

TEST(Tiles, PathsAreAsTheSpecificationHasThem) {
  EXPECT_EQ((Tile{0, 0, 256}.path()), "tile/0/000");
  EXPECT_EQ((Tile{1, 1'234'067, 256}.path()), "tile/1/x001/x234/067");
  EXPECT_EQ((Tile{Tile::kEntries, 1'234'067, 9}.path()), "tile/entries/x001/x234/067.p/9");
  EXPECT_EQ((Tile{0, 1'000, 255}.path()), "tile/0/x001/000.p/255");
  for (const Tile& tile : {Tile{0, 0, 1}, Tile{3, 999, 256}, Tile{Tile::kEntries, 1'000'000, 17}}) {
    EXPECT_EQ(parse_tile_path(tile.path()), tile) << tile.path();
  }
}

TEST(Tiles, NoTileHasTwoPaths) {
  for (const char* path :
       {"",
        "tile",
        "tile/0",
        "tile/0/",
        "tile/0/0",
        "tile/0/0000",
        "tile/0/x000/000",
        "tile/00/000",
        "tile/6/000",
        "tile/-1/000",
        "tile/0/000.p/0",
        "tile/0/000.p/256",
        "tile/0/000.p/07",
        "tile/0/000.p/",
        "tile/0/000.p",
        "tile/0/000/",
        "tile/0/001/000",
        "tile/0/x001/x000",
        "tile/entries",
        "tile/Entries/000",
        "tile/0/+00",
        "xtile/0/000",
        "tile/0/000.p/1/",
        "tile/0/x999/x999/x999/x999/x999/x999/x999/x999/x999/x999/x999/x999/999"}) {
    EXPECT_FALSE(parse_tile_path(path)) << path;
  }
}

TEST(Tiles, WidthsFollowTheSize) {  // the example of tlog-tiles: 70,000 entries
  EXPECT_EQ(tile_width(0, 272, 70'000), 256u);
  EXPECT_EQ(tile_width(0, 273, 70'000), 112u);
  EXPECT_EQ(tile_width(0, 274, 70'000), 0u);
  EXPECT_EQ(tile_width(1, 0, 70'000), 256u);
  EXPECT_EQ(tile_width(1, 1, 70'000), 17u);
  EXPECT_EQ(tile_width(2, 0, 70'000), 1u);
  EXPECT_EQ(tile_width(3, 0, 70'000), 0u);
  EXPECT_EQ(tile_width(Tile::kEntries, 273, 70'000), 112u);
  EXPECT_EQ(tile_width(0, 1, 256), 0u);
  EXPECT_EQ(tile_width(1, 0, 256), 1u);
}

TEST(Tiles, BundlesRoundTripAndNameTheFault) {
  Bytes bundle;
  append_to_bundle(bundle, as_bytes("one"));
  append_to_bundle(bundle, as_bytes(std::string(300, 'z')));
  ASSERT_EQ(bundle.size(), 2u + 3 + 2 + 300);
  EXPECT_EQ(bundle[0], std::byte{0});
  EXPECT_EQ(bundle[5], std::byte{1}) << "big-endian";
  const auto entries = parse_bundle(bundle, 2);
  ASSERT_TRUE(entries) << entries.error().message;
  EXPECT_EQ(as_text((*entries)[0].bytes), "one");
  EXPECT_EQ((*entries)[1].offset, 5u);
  for (std::size_t size = 0; size < bundle.size(); ++size) {
    EXPECT_FALSE(parse_bundle(ByteSpan(bundle).first(size), 2)) << size;
  }
  EXPECT_NE(parse_bundle(bundle, 1).error().message.find("from byte 5"), std::string::npos);
  EXPECT_NE(parse_bundle(bundle, 3).error().message.find("byte 307"), std::string::npos);
  EXPECT_TRUE(parse_bundle({}, 0));
}

}  // namespace
}  // namespace hearth::ledger
