// The maps of `penstock bench`: chains by name, and single maps as they are typed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <penstock/pipeline/pipeline.h>

namespace penstock::trainer::command {

/// For the list of options: what the names mean.
std::string chain_help();
std::string map_help();

/// The maps of the chain `name` for samples of this schema: pictures that are encoded files (eval: decode, short side
/// to 256, centre crop 224, normalise to f32 planes; random: decode, random resized crop 224, flip, normalise), or
/// decoded ones of a known size (eval: normalise; random: random crop of the same size with 4 pixels of padding, flip,
/// normalise). `none`: nothing, but that an encoded picture becomes the hash of its bytes, since a batch has one shape.
/// Throws InvalidArgument that lists the names there are.
std::vector<MapStage> chain_maps(const std::string& name, const Schema& samples);

/// One map for each text, `resize:256`. Throws InvalidArgument that names --map and what was typed.
std::vector<MapStage> parse_maps(const std::vector<std::string>& texts, const Schema& samples);

/// `samples` with the maps; `store`, unless it is null, keeps them before the first map that draws.
Pipeline with_maps(Pipeline samples, const std::vector<MapStage>& maps, const std::shared_ptr<SampleStore>& store);

}  // namespace penstock::trainer::command
