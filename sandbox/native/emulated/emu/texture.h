// Texture objects: which resource each reads, and how.
#pragma once

#include "cuda_array.h"

namespace emu EMU_HIDDEN {

struct Texture {
    uint32_t next_unused;  // the place that was given up before this one, and one more; 0: none
    uint32_t generation;   // odd while the object lives; part of the handle, so that one which was destroyed stays invalid
    cudaResourceDesc resource;
    cudaTextureDesc how;
    const char* memory;
    TexelFormat format;
    unsigned dimensions;  // 0: linear memory
    size_t size[3];
    size_t row_bytes, slice_bytes;

    bool gives_floats() const {
        return format.kind == cudaChannelFormatKindFloat || (how.readMode == cudaReadModeNormalizedFloat && format.bits < 32);
    }
};

// As many as a GPU has headers for.  They never move, so that a kernel can look one up while the host makes others.
inline constexpr uint32_t textures_each = 1024, most_textures = 1u << 20;
inline Texture* texture_chunks[most_textures / textures_each];
inline uint32_t texture_count = 0;
inline uint32_t last_unused_texture = 0;
inline pthread_mutex_t textures_mutex = PTHREAD_MUTEX_INITIALIZER;

// The living object of a handle; null for any other number.
EMU_UNCHECKED Texture* texture_of(cudaTextureObject_t handle) {
    auto place = static_cast<uint32_t>(handle) - 1, generation = static_cast<uint32_t>(handle >> 32);
    if (place >= most_textures || generation % 2 == 0) return nullptr;
    Texture* chunk = __atomic_load_n(&texture_chunks[place / textures_each], __ATOMIC_ACQUIRE);
    Texture* found = chunk ? chunk + place % textures_each : nullptr;
    return found && __atomic_load_n(&found->generation, __ATOMIC_ACQUIRE) == generation ? found : nullptr;
}

// The device's own allocations begin as those of a GPU do; of other memory only what every allocator gives can be asked.
inline bool is_texture_address(const void* address) {
    auto at = reinterpret_cast<uintptr_t>(address);
    bool aligned = at % 16 == 0;
    pthread_mutex_lock(&allocations_mutex);
    for (const Allocation& entry : allocations)
        if (address >= entry.address && address < entry.address + entry.bytes)
            aligned = (at - reinterpret_cast<uintptr_t>(entry.address)) % texture_alignment == 0;
    pthread_mutex_unlock(&allocations_mutex);
    return address && aligned;
}

inline cudaError_t describe_linear(Texture& texture, const cudaResourceDesc& resource) {
    const auto& linear = resource.res.linear;
    texture.format = texel_format(linear.desc);
    if (!texture.format || !is_texture_address(linear.devPtr)) return cudaErrorInvalidValue;
    texture.memory = static_cast<const char*>(linear.devPtr);
    texture.dimensions = 0;
    texture.size[0] = linear.sizeInBytes / texture.format.bytes();
    texture.size[1] = texture.size[2] = 1;
    return texture.size[0] <= max_texture_1d_linear ? cudaSuccess : cudaErrorInvalidValue;
}

inline cudaError_t describe_pitched(Texture& texture, const cudaResourceDesc& resource) {
    const auto& pitched = resource.res.pitch2D;
    texture.format = texel_format(pitched.desc);
    if (!texture.format || !is_texture_address(pitched.devPtr)) return cudaErrorInvalidValue;
    bool fits = pitched.width && pitched.height && pitched.width <= max_texture_2d_linear[0] && pitched.height <= max_texture_2d_linear[1];
    bool pitch = pitched.pitchInBytes % texture_pitch_alignment == 0 && pitched.pitchInBytes <= max_texture_2d_linear[2];
    if (!fits || !pitch || pitched.pitchInBytes < pitched.width * texture.format.bytes()) return cudaErrorInvalidValue;
    texture.memory = static_cast<const char*>(pitched.devPtr);
    texture.dimensions = 2;
    texture.size[0] = pitched.width;
    texture.size[1] = pitched.height;
    texture.size[2] = 1;
    texture.row_bytes = pitched.pitchInBytes;
    return cudaSuccess;
}

inline cudaError_t describe_array(Texture& texture, const cudaResourceDesc& resource) {
    cudaArray array;
    if (!read_array(resource.res.array.array, &array)) return cudaErrorInvalidResourceHandle;
    texture.format = array.format;
    texture.memory = array.memory;
    texture.dimensions = array.extent.depth ? 3 : array.extent.height ? 2 : 1;
    texture.size[0] = array.extent.width;
    texture.size[1] = array.rows();
    texture.size[2] = array.slices();
    texture.row_bytes = array.row_bytes();
    texture.slice_bytes = texture.row_bytes * texture.size[1];
    return cudaSuccess;
}

inline cudaError_t describe_texture(Texture& texture, const cudaResourceDesc& resource, const cudaTextureDesc& how) {
    texture.resource = resource;
    texture.how = how;
    if (resource.flags) return cudaErrorInvalidValue;
    cudaError_t failed = resource.resType == cudaResourceTypeLinear    ? describe_linear(texture, resource)
                         : resource.resType == cudaResourceTypePitch2D ? describe_pitched(texture, resource)
                         : resource.resType == cudaResourceTypeArray   ? describe_array(texture, resource)
                                                                       : cudaErrorInvalidValue;
    if (failed != cudaSuccess) return failed;
    for (cudaTextureAddressMode mode : how.addressMode)
        if (mode < cudaAddressModeWrap || mode > cudaAddressModeBorder) return cudaErrorInvalidValue;
    if (how.filterMode < cudaFilterModePoint || how.filterMode > cudaFilterModeLinear) return cudaErrorInvalidValue;
    if (how.readMode < cudaReadModeElementType || how.readMode > cudaReadModeNormalizedFloat) return cudaErrorInvalidValue;
    if (how.sRGB) return cudaErrorNotSupported;
    bool filters = texture.dimensions && how.filterMode == cudaFilterModeLinear;
    return filters && !texture.gives_floats() ? cudaErrorInvalidFilterSetting : cudaSuccess;
}

inline cudaError_t make_texture(cudaTextureObject_t* out, const Texture& described) {
    pthread_mutex_lock(&textures_mutex);
    uint32_t place = texture_count;
    if (last_unused_texture) {
        place = last_unused_texture - 1;
        last_unused_texture = texture_chunks[place / textures_each][place % textures_each].next_unused;
    } else if (texture_count < most_textures) {
        Texture*& chunk = texture_chunks[place / textures_each];
        if (!chunk) __atomic_store_n(&chunk, static_cast<Texture*>(calloc(textures_each, sizeof(Texture))), __ATOMIC_RELEASE);
        if (chunk) ++texture_count;
    }
    Texture* chunk = place < most_textures ? texture_chunks[place / textures_each] : nullptr;
    if (chunk) {
        Texture& texture = chunk[place % textures_each];
        uint32_t generation = texture.generation + 1;
        texture = described;
        __atomic_store_n(&texture.generation, generation, __ATOMIC_RELEASE);
        *out = uint64_t{generation} << 32 | (place + 1);
    }
    pthread_mutex_unlock(&textures_mutex);
    return chunk ? cudaSuccess : report(cudaErrorMemoryAllocation);
}

inline cudaError_t destroy_texture(cudaTextureObject_t handle) {
    pthread_mutex_lock(&textures_mutex);
    Texture* found = texture_of(handle);
    if (found) {
        __atomic_store_n(&found->generation, found->generation + 1, __ATOMIC_RELEASE);
        found->next_unused = last_unused_texture;
        last_unused_texture = static_cast<uint32_t>(handle);
    }
    pthread_mutex_unlock(&textures_mutex);
    return found ? cudaSuccess : report(cudaErrorInvalidValue);
}

}  // namespace emu

inline cudaError_t cudaCreateTextureObject(cudaTextureObject_t* out, const cudaResourceDesc* resource, const cudaTextureDesc* how,
                                           const cudaResourceViewDesc* view) {
    if (!out || !resource || !how) return emu::report(cudaErrorInvalidValue);
    emu::Texture described{};
    cudaError_t failed = view ? cudaErrorNotSupported : emu::describe_texture(described, *resource, *how);
    return failed == cudaSuccess ? emu::make_texture(out, described) : emu::report(failed);
}
inline cudaError_t cudaDestroyTextureObject(cudaTextureObject_t texture) { return emu::destroy_texture(texture); }
inline cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc* out, cudaTextureObject_t texture) {
    const emu::Texture* found = emu::texture_of(texture);
    if (!out || !found) return emu::report(cudaErrorInvalidValue);
    *out = found->resource;
    return cudaSuccess;
}
inline cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc* out, cudaTextureObject_t texture) {
    const emu::Texture* found = emu::texture_of(texture);
    if (!out || !found) return emu::report(cudaErrorInvalidValue);
    *out = found->how;
    return cudaSuccess;
}

#include "texture_fetch.h"
