// CUDA arrays, and texture objects over them and over linear memory.  An array has rows without gaps between them, in device memory like any
// other; a handle is used only if it is one of a living array.
#pragma once

#include <math.h>
#include <string.h>

#include "memory.h"
#include "short_float_bits.h"

// The types of textures and of CUDA arrays, with the runtime's own values.
enum cudaChannelFormatKind {
    cudaChannelFormatKindSigned = 0, cudaChannelFormatKindUnsigned = 1, cudaChannelFormatKindFloat = 2,
    cudaChannelFormatKindNone = 3,
};
struct cudaChannelFormatDesc {
    int x, y, z, w;
    cudaChannelFormatKind f;
};

enum cudaTextureAddressMode { cudaAddressModeWrap, cudaAddressModeClamp, cudaAddressModeMirror, cudaAddressModeBorder };
enum cudaTextureFilterMode { cudaFilterModePoint, cudaFilterModeLinear };
enum cudaTextureReadMode { cudaReadModeElementType, cudaReadModeNormalizedFloat };
struct cudaTextureDesc {
    cudaTextureAddressMode addressMode[3];
    cudaTextureFilterMode filterMode;
    cudaTextureReadMode readMode;
    int sRGB;
    float borderColor[4];
    int normalizedCoords;
    unsigned int maxAnisotropy;
    cudaTextureFilterMode mipmapFilterMode;
    float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
    int disableTrilinearOptimization, seamlessCubemap;
};
typedef unsigned long long cudaTextureObject_t;

typedef struct cudaArray* cudaArray_t;
typedef const struct cudaArray* cudaArray_const_t;
#define cudaArrayDefault 0x00
#define cudaArraySurfaceLoadStore 0x02

enum cudaResourceType { cudaResourceTypeArray = 0, cudaResourceTypeLinear = 2, cudaResourceTypePitch2D = 3 };
struct cudaResourceDesc {
    cudaResourceType resType;
    union {
        struct {
            cudaArray_t array;
        } array;
        struct {
            void* devPtr;
            cudaChannelFormatDesc desc;
            size_t sizeInBytes;
        } linear;
        struct {
            void* devPtr;
            cudaChannelFormatDesc desc;
            size_t width, height, pitchInBytes;
        } pitch2D;
        struct {
            int reserved[32];
        } reserved;
    } res;
    unsigned int flags;
};
struct cudaResourceViewDesc;

struct cudaPitchedPtr {
    void* ptr;
    size_t pitch, xsize, ysize;
};
struct cudaExtent {
    size_t width, height, depth;
};
struct cudaPos {
    size_t x, y, z;
};
struct cudaMemcpy3DParms {
    cudaArray_t srcArray;
    cudaPos srcPos;
    cudaPitchedPtr srcPtr;
    cudaArray_t dstArray;
    cudaPos dstPos;
    cudaPitchedPtr dstPtr;
    cudaExtent extent;
    cudaMemcpyKind kind;
};
inline cudaPitchedPtr make_cudaPitchedPtr(void* address, size_t pitch, size_t xsize, size_t ysize) { return {address, pitch, xsize, ysize}; }
inline cudaExtent make_cudaExtent(size_t width, size_t height, size_t depth) { return {width, height, depth}; }
inline cudaPos make_cudaPos(size_t x, size_t y, size_t z) { return {x, y, z}; }

inline cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind f) { return {x, y, z, w, f}; }

namespace emu EMU_HIDDEN {

// How a type is a texture's: `type` where it is one, with its channels and what they are made of.
template <class T>
struct TextureValue {
    static cudaChannelFormatDesc desc() { return {0, 0, 0, 0, cudaChannelFormatKindNone}; }
};

// A fetch gives four words; integers narrower than those are cut, as the fetch instruction's users do.
template <class Channel>
EMU_INLINE Channel channel_of(uint32_t word) {
    if constexpr (std::is_same_v<Channel, float>) return __builtin_bit_cast(float, word);
    else return static_cast<Channel>(word);
}

template <class Channel>
inline constexpr cudaChannelFormatKind kind_of = std::is_same_v<Channel, float>  ? cudaChannelFormatKindFloat
                                                 : std::is_signed_v<Channel> ? cudaChannelFormatKindSigned
                                                                             : cudaChannelFormatKindUnsigned;

#define EMU_TEXTURE_VALUE(T, Channel, x, y, z, w, ...)                                                                 \
    template <>                                                                                                        \
    struct TextureValue<T> {                                                                                           \
        using type = void;                                                                                             \
        static EMU_INLINE T from(const uint32_t* words) { return {__VA_ARGS__}; }                                                 \
        static cudaChannelFormatDesc desc() {                                                                          \
            constexpr int bits = 8 * sizeof(Channel);                                                                  \
            return {x * bits, y * bits, z * bits, w * bits, kind_of<Channel>};                                         \
        }                                                                                                              \
    };
#define EMU_WORD(Channel, index) channel_of<Channel>(words[index])
#define EMU_TEXTURE_VALUES(Channel, name)                                                                              \
    EMU_TEXTURE_VALUE(Channel, Channel, 1, 0, 0, 0, EMU_WORD(Channel, 0))                                              \
    EMU_TEXTURE_VALUE(name##1, Channel, 1, 0, 0, 0, EMU_WORD(Channel, 0))                                              \
    EMU_TEXTURE_VALUE(name##2, Channel, 1, 1, 0, 0, EMU_WORD(Channel, 0), EMU_WORD(Channel, 1))                        \
    EMU_TEXTURE_VALUE(name##4, Channel, 1, 1, 1, 1, EMU_WORD(Channel, 0), EMU_WORD(Channel, 1), EMU_WORD(Channel, 2), EMU_WORD(Channel, 3))
EMU_TEXTURE_VALUES(signed char, char)
EMU_TEXTURE_VALUES(unsigned char, uchar)
EMU_TEXTURE_VALUES(short, short)
EMU_TEXTURE_VALUES(unsigned short, ushort)
EMU_TEXTURE_VALUES(int, int)
EMU_TEXTURE_VALUES(unsigned int, uint)
EMU_TEXTURE_VALUES(float, float)
EMU_TEXTURE_VALUE(char, char, 1, 0, 0, 0, EMU_WORD(char, 0))
#undef EMU_TEXTURE_VALUES
#undef EMU_WORD
#undef EMU_TEXTURE_VALUE

// A descriptor as a size of texels: one, two or four channels, all of 8, 16 or 32 bits.
struct TexelFormat {
    unsigned channels, bits;
    cudaChannelFormatKind kind;

    unsigned bytes() const { return channels * bits / 8; }
    explicit operator bool() const { return channels != 0; }
};

inline TexelFormat texel_format(const cudaChannelFormatDesc& desc) {
    const int sizes[4] = {desc.x, desc.y, desc.z, desc.w};
    unsigned channels = 0;
    while (channels < 4 && sizes[channels] != 0) ++channels;
    bool good = channels == 1 || channels == 2 || channels == 4;
    for (unsigned i = 0; i < 4; ++i) good &= sizes[i] == (i < channels ? desc.x : 0);
    good &= desc.x == 8 || desc.x == 16 || desc.x == 32;
    bool floats = desc.f == cudaChannelFormatKindFloat && desc.x != 8;
    good &= desc.f == cudaChannelFormatKindSigned || desc.f == cudaChannelFormatKindUnsigned || floats;
    return good ? TexelFormat{channels, static_cast<unsigned>(desc.x), desc.f} : TexelFormat{0, 0, cudaChannelFormatKindNone};
}

}  // namespace emu

template <class T>
cudaChannelFormatDesc cudaCreateChannelDesc() { return emu::TextureValue<T>::desc(); }
inline cudaChannelFormatDesc cudaCreateChannelDescHalf() { return {16, 0, 0, 0, cudaChannelFormatKindFloat}; }
inline cudaChannelFormatDesc cudaCreateChannelDescHalf1() { return {16, 0, 0, 0, cudaChannelFormatKindFloat}; }
inline cudaChannelFormatDesc cudaCreateChannelDescHalf2() { return {16, 16, 0, 0, cudaChannelFormatKindFloat}; }
inline cudaChannelFormatDesc cudaCreateChannelDescHalf4() { return {16, 16, 16, 16, cudaChannelFormatKindFloat}; }

struct cudaArray {
    char* memory;
    cudaChannelFormatDesc desc;
    emu::TexelFormat format;
    cudaExtent extent;  // as asked for: 0 where it has no such dimension
    unsigned flags;
    cudaArray* next;  // of those that live

    size_t row_bytes() const { return extent.width * format.bytes(); }
    size_t rows() const { return extent.height ? extent.height : 1; }
    size_t slices() const { return extent.depth ? extent.depth : 1; }
    size_t bytes() const { return row_bytes() * rows() * slices(); }
};

namespace emu EMU_HIDDEN {

// Limits of compute capability 9.0, in texels.
inline constexpr size_t max_texture_1d = 131072, max_texture_3d = 16384;
inline constexpr size_t max_texture_2d[2] = {131072, 65536}, max_texture_2d_linear[3] = {131072, 65000, 2097120};
inline constexpr size_t max_texture_1d_linear = size_t{1} << 28;
inline constexpr size_t texture_alignment = 512, texture_pitch_alignment = 32;

inline cudaArray* arrays = nullptr;
inline pthread_mutex_t arrays_mutex = PTHREAD_MUTEX_INITIALIZER;

// Whether the handle is one; then `out` is a copy, which the array's end leaves alone.
inline bool read_array(cudaArray_const_t handle, cudaArray* out) {
    pthread_mutex_lock(&arrays_mutex);
    bool found = false;
    for (const cudaArray* entry = arrays; entry; entry = entry->next)
        if (entry == handle) *out = *entry, found = true;
    pthread_mutex_unlock(&arrays_mutex);
    return found;
}

inline bool has_room(cudaExtent extent) {
    if (extent.width == 0) return false;
    if (extent.depth) return extent.height && extent.width <= max_texture_3d && extent.height <= max_texture_3d && extent.depth <= max_texture_3d;
    if (extent.height) return extent.width <= max_texture_2d[0] && extent.height <= max_texture_2d[1];
    return extent.width <= max_texture_1d;
}

inline cudaError_t make_array(cudaArray_t* out, const cudaChannelFormatDesc* desc, cudaExtent extent, unsigned flags) {
    TexelFormat format = desc ? texel_format(*desc) : TexelFormat{};
    if (!out || !format || !has_room(extent)) return report(cudaErrorInvalidValue);
    if (flags & ~unsigned{cudaArraySurfaceLoadStore}) return report(cudaErrorNotSupported);
    cudaArray made{nullptr, *desc, format, extent, flags, nullptr};
    void* memory = nullptr;
    if (cudaError_t failed = allocate(&memory, made.bytes())) return failed;
    made.memory = static_cast<char*>(memory);
    *out = new cudaArray(made);
    pthread_mutex_lock(&arrays_mutex);
    (*out)->next = arrays;
    arrays = *out;
    pthread_mutex_unlock(&arrays_mutex);
    return cudaSuccess;
}

inline cudaError_t free_array(cudaArray_t handle) {
    if (!handle) return cudaSuccess;
    pthread_mutex_lock(&arrays_mutex);
    cudaArray** at = &arrays;
    while (*at && *at != handle) at = &(*at)->next;
    cudaArray* found = *at;
    if (found) *at = found->next;
    pthread_mutex_unlock(&arrays_mutex);
    if (!found) return report(cudaErrorInvalidResourceHandle);
    void* memory = found->memory;
    delete found;
    return release(memory);
}

// One end of a copy of rows and slices, in bytes.
struct CopyEnd {
    char* start;
    size_t row_bytes, slice_bytes;
};

// Where in an array a box of bytes begins; false where it is not in it.
inline bool box_in(const cudaArray& array, size_t x_bytes, size_t y, size_t z, size_t width_bytes, size_t height, size_t depth, CopyEnd* out) {
    auto within = [](size_t from, size_t count, size_t size) { return from <= size && count <= size - from; };
    if (!within(x_bytes, width_bytes, array.row_bytes()) || !within(y, height, array.rows()) || !within(z, depth, array.slices())) return false;
    size_t slice = array.row_bytes() * array.rows();
    *out = {array.memory + z * slice + y * array.row_bytes() + x_bytes, array.row_bytes(), slice};
    return true;
}

inline cudaError_t copy_box(CopyEnd to, CopyEnd from, size_t width_bytes, size_t height, size_t depth, cudaStream_t stream) {
    enqueue(stream, [=] {
        for (size_t slice = 0; slice < depth; ++slice)
            for (size_t row = 0; row < height; ++row) {
                char* target = to.start + slice * to.slice_bytes + row * to.row_bytes;
                memmove(target, from.start + slice * from.slice_bytes + row * from.row_bytes, width_bytes);
                EMU_TELL(mark_initialised(target, width_bytes));
            }
    });
    return cudaSuccess;
}

inline cudaError_t copy_2d(cudaArray_const_t handle, size_t x_bytes, size_t y, void* other, size_t pitch, size_t width_bytes, size_t height,
                           bool to_array, cudaStream_t stream) {
    cudaArray array;
    CopyEnd start;
    if (!read_array(handle, &array)) return report(cudaErrorInvalidResourceHandle);
    if (width_bytes > pitch) return report(cudaErrorInvalidPitchValue);
    if (!other || !box_in(array, x_bytes, y, 0, width_bytes, height, 1, &start)) return report(cudaErrorInvalidValue);
    CopyEnd end{static_cast<char*>(other), pitch, 0};
    return copy_box(to_array ? start : end, to_array ? end : start, width_bytes, height, 1, stream);
}

// The older copies, of bytes that go on in the next row.
inline cudaError_t copy_through(cudaArray_const_t handle, size_t x_bytes, size_t y, void* other, size_t bytes, bool to_array) {
    cudaArray array;
    CopyEnd start;
    if (!read_array(handle, &array)) return report(cudaErrorInvalidResourceHandle);
    if (!other || !box_in(array, x_bytes, y, 0, 0, 0, 1, &start)) return report(cudaErrorInvalidValue);
    if (bytes > array.row_bytes() * array.rows() - static_cast<size_t>(start.start - array.memory)) return report(cudaErrorInvalidValue);
    CopyEnd end{static_cast<char*>(other), 0, 0};
    return copy_box(to_array ? start : end, to_array ? end : start, bytes, 1, 1, nullptr);
}

// An end of cudaMemcpy3D: positions and widths are in texels for an array, in bytes for other memory.
inline cudaError_t end_of(cudaArray_t handle, cudaPitchedPtr memory, cudaPos at, size_t width_bytes, size_t unit, cudaExtent extent, CopyEnd* out) {
    if (!handle == !memory.ptr) return report(cudaErrorInvalidValue);
    if (handle) {
        cudaArray array;
        if (!read_array(handle, &array)) return report(cudaErrorInvalidResourceHandle);
        bool inside = at.x <= array.extent.width && box_in(array, at.x * unit, at.y, at.z, width_bytes, extent.height, extent.depth, out);
        return inside ? cudaSuccess : report(cudaErrorInvalidValue);
    }
    if (at.x > memory.pitch || width_bytes > memory.pitch - at.x) return report(cudaErrorInvalidPitchValue);
    size_t slice = memory.pitch * memory.ysize;
    *out = {static_cast<char*>(memory.ptr) + at.z * slice + at.y * memory.pitch + at.x, memory.pitch, slice};
    return cudaSuccess;
}

inline cudaError_t copy_3d(const cudaMemcpy3DParms* how, cudaStream_t stream) {
    if (!how) return report(cudaErrorInvalidValue);
    cudaArray array;
    size_t unit = 1;
    for (cudaArray_t handle : {how->srcArray, how->dstArray}) {
        if (handle && !read_array(handle, &array)) return report(cudaErrorInvalidResourceHandle);
        if (handle && unit != 1 && unit != array.format.bytes()) return report(cudaErrorInvalidValue);
        if (handle) unit = array.format.bytes();
    }
    if (how->extent.width > (size_t{1} << 40)) return report(cudaErrorInvalidValue);
    size_t width_bytes = how->extent.width * unit;
    CopyEnd from, to;
    if (cudaError_t failed = end_of(how->srcArray, how->srcPtr, how->srcPos, width_bytes, unit, how->extent, &from)) return failed;
    if (cudaError_t failed = end_of(how->dstArray, how->dstPtr, how->dstPos, width_bytes, unit, how->extent, &to)) return failed;
    return copy_box(to, from, width_bytes, how->extent.height, how->extent.depth, stream);
}

}  // namespace emu

inline cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* desc, size_t width, size_t height = 0, unsigned flags = 0) {
    return emu::make_array(array, desc, {width, height, 0}, flags);
}
inline cudaError_t cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* desc, cudaExtent extent, unsigned flags = 0) {
    return emu::make_array(array, desc, extent, flags);
}
inline cudaError_t cudaFreeArray(cudaArray_t array) { return emu::free_array(array); }
inline cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* desc, cudaExtent* extent, unsigned* flags, cudaArray_t array) {
    cudaArray found;
    if (!emu::read_array(array, &found)) return emu::report(cudaErrorInvalidResourceHandle);
    if (desc) *desc = found.desc;
    if (extent) *extent = found.extent;
    if (flags) *flags = found.flags;
    return cudaSuccess;
}
inline cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* desc, cudaArray_const_t array) {
    return desc ? cudaArrayGetInfo(desc, nullptr, nullptr, const_cast<cudaArray_t>(array)) : emu::report(cudaErrorInvalidValue);
}

EMU_ALSO_ASYNC(cudaMemcpy2DToArray,
               (cudaArray_t to, size_t x_bytes, size_t y, const void* from, size_t pitch, size_t width_bytes, size_t height, cudaMemcpyKind),
               copy_2d(to, x_bytes, y, const_cast<void*>(from), pitch, width_bytes, height, true, stream))
EMU_ALSO_ASYNC(cudaMemcpy2DFromArray,
               (void* to, size_t pitch, cudaArray_const_t from, size_t x_bytes, size_t y, size_t width_bytes, size_t height, cudaMemcpyKind),
               copy_2d(from, x_bytes, y, to, pitch, width_bytes, height, false, stream))
EMU_ALSO_ASYNC(cudaMemcpy3D, (const cudaMemcpy3DParms* how), copy_3d(how, stream))
#undef EMU_ALSO_ASYNC
#undef EMU_UNPACK
inline cudaError_t cudaMemcpyToArray(cudaArray_t to, size_t x_bytes, size_t y, const void* from, size_t bytes, cudaMemcpyKind) {
    return emu::copy_through(to, x_bytes, y, const_cast<void*>(from), bytes, true);
}
inline cudaError_t cudaMemcpyFromArray(void* to, cudaArray_const_t from, size_t x_bytes, size_t y, size_t bytes, cudaMemcpyKind) {
    return emu::copy_through(from, x_bytes, y, to, bytes, false);
}

// Texture objects: which resource each reads, and how.
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

template <class Part>
cudaError_t read_texture(Part* out, cudaTextureObject_t handle, Part Texture::*part) {
    const Texture* found = texture_of(handle);
    if (!out || !found) return report(cudaErrorInvalidValue);
    *out = found->*part;
    return cudaSuccess;
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
    return emu::read_texture(out, texture, &emu::Texture::resource);
}
inline cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc* out, cudaTextureObject_t texture) {
    return emu::read_texture(out, texture, &emu::Texture::how);
}

// The fetches of the CUDA Programming Guide ("Texture Fetching").  A fetch asks for texels by number, and only for those that the resource
// has: whatever the coordinates, it reads nothing else.
namespace emu EMU_HIDDEN {

// What a fetch gives: four words, of which a texture with fewer channels leaves the rest 0.
struct Texel {
    uint32_t words[4];
};

template <class Signed, class Unsigned>
EMU_UNCHECKED uint32_t texel_word(const char* address, const Texture& texture) {
    Unsigned bits;
    EMU_COPY(&bits, address, sizeof bits);
    bool is_signed = texture.format.kind == cudaChannelFormatKindSigned;
    auto number = static_cast<Signed>(bits);
    if (texture.how.readMode != cudaReadModeNormalizedFloat) return is_signed ? static_cast<uint32_t>(static_cast<int>(number)) : bits;
    float largest = is_signed ? std::numeric_limits<Signed>::max() : std::numeric_limits<Unsigned>::max();
    float value = (is_signed ? static_cast<float>(number) : static_cast<float>(bits)) / largest;
    return bit_cast<uint32_t>(value < -1 ? -1.0f : value);
}

// caller: the code that fetches, which the sanitizer names.
EMU_UNCHECKED Texel read_texel(const Texture& texture, size_t x, size_t y, size_t z, [[maybe_unused]] const void* caller) {
    unsigned bits = texture.format.bits;
    const char* address = texture.memory + x * texture.format.bytes();
    if (texture.dimensions) address += y * texture.row_bytes + (texture.dimensions == 3 ? z * texture.slice_bytes : 0);
    EMU_TELL(access_range(address, texture.format.bytes(), caller, false));
    Texel texel{};
    for (unsigned channel = 0; channel < texture.format.channels; ++channel, address += bits / 8) {
        uint32_t& word = texel.words[channel];
        if (bits == 32) {
            EMU_COPY(&word, address, sizeof word);
        } else if (texture.format.kind == cudaChannelFormatKindFloat) {
            uint16_t half;
            EMU_COPY(&half, address, sizeof half);
            word = bit_cast<uint32_t>(HalfFormat::to_float(half));
        } else {
            word = bits == 8 ? texel_word<int8_t, uint8_t>(address, texture) : texel_word<int16_t, uint16_t>(address, texture);
        }
    }
    return texel;
}

// The two texels on an axis between which a coordinate lies, and how much of the second; -1 stands for the border.
struct TextureAxis {
    int64_t first, second;
    float weight;
};

EMU_UNCHECKED int64_t address_texel(int64_t index, int64_t size, cudaTextureAddressMode mode) {
    if (index >= 0 && index < size) return index;
    if (mode == cudaAddressModeBorder) return -1;
    if (mode == cudaAddressModeWrap) return index < 0 ? size - 1 : 0;  // at most one step outside
    return index < 0 ? 0 : size - 1;
}

EMU_UNCHECKED TextureAxis texture_axis(const Texture& texture, unsigned axis, float coordinate) {
    auto size = static_cast<int64_t>(texture.size[axis]);
    cudaTextureAddressMode mode = texture.how.addressMode[axis];
    double at = isnan(coordinate) ? 0.0 : static_cast<double>(coordinate);
    bool repeats = mode == cudaAddressModeWrap || mode == cudaAddressModeMirror;
    if (texture.how.normalizedCoords) {
        if (repeats) {
            double whole = floor(at), rest = isinf(at) ? 0.0 : at - whole;
            at = mode == cudaAddressModeMirror && fmod(whole, 2.0) != 0 ? 1 - rest : rest;
        }
        at *= static_cast<double>(size);
    } else if (repeats) {
        mode = cudaAddressModeClamp;  // these two exist with normalised coordinates only
    }
    double most = static_cast<double>(size) + 2;
    at = at < -2 ? -2 : at > most ? most : at;
    if (mode == cudaAddressModeClamp) at = at < 0 ? 0 : at > most - 2 ? most - 2 : at;
    if (texture.how.filterMode == cudaFilterModePoint) {
        int64_t index = address_texel(static_cast<int64_t>(floor(at)), size, mode == cudaAddressModeWrap ? cudaAddressModeClamp : mode);
        return {index, index, 0};
    }
    // Fixed point with 8 bits behind the point, as the device's filter has it.
    auto fixed = static_cast<int64_t>(floor((at - 0.5) * 256 + 0.5));
    int64_t index = fixed >> 8;
    return {address_texel(index, size, mode), address_texel(index + 1, size, mode), static_cast<float>(fixed & 255) / 256};
}

EMU_UNCHECKED Texel border_texel(const Texture& texture) {
    Texel texel{};
    for (unsigned channel = 0; channel < texture.format.channels; ++channel)
        texel.words[channel] = bit_cast<uint32_t>(texture.how.borderColor[channel]);
    return texel;
}

EMU_UNCHECKED Texel texel_at(const Texture& texture, int64_t x, int64_t y, int64_t z, const void* caller) {
    if (x < 0 || y < 0 || z < 0) return border_texel(texture);
    return read_texel(texture, static_cast<size_t>(x), static_cast<size_t>(y), static_cast<size_t>(z), caller);
}

EMU_UNCHECKED Texel filter_texels(const Texture& texture, const TextureAxis (&axes)[3], const void* caller) {
    double sums[4] = {};
    for (unsigned corner = 0; corner < 8; ++corner) {
        int64_t at[3];  // -1 stands for the border
        double share = 1;
        for (unsigned axis = 0; axis < 3; ++axis) {
            bool second = corner >> axis & 1;
            at[axis] = second ? axes[axis].second : axes[axis].first;
            share *= second ? axes[axis].weight : 1 - axes[axis].weight;
        }
        if (share == 0) continue;
        Texel texel = texel_at(texture, at[0], at[1], at[2], caller);
        for (unsigned channel = 0; channel < 4; ++channel) sums[channel] += share * double{bit_cast<float>(texel.words[channel])};
    }
    // A filter of unsigned bytes gives 16 bits behind the point: half of 51/255 is 6554/65535.
    bool bytes = texture.format.bits == 8 && texture.format.kind == cudaChannelFormatKindUnsigned;
    Texel result;
    for (unsigned channel = 0; channel < 4; ++channel) {
        double sum = bytes ? floor(sums[channel] * 65535 + 0.5) / 65535 : sums[channel];
        result.words[channel] = bit_cast<uint32_t>(static_cast<float>(sum));
    }
    return result;
}

EMU_OUTLINE const Texture& fetched_texture(cudaTextureObject_t handle) {
    const Texture* found = texture_of(handle);
    if (!found) trap("a fetch through a value that is no texture object");
    return *found;
}

EMU_OUTLINE Texel fetch_linear(cudaTextureObject_t handle, int index) {
    const Texture& texture = fetched_texture(handle);
    if (texture.dimensions) trap("tex1Dfetch from a texture object that is not over linear memory");
    bool inside = index >= 0 && static_cast<size_t>(index) < texture.size[0];
    return inside ? read_texel(texture, static_cast<size_t>(index), 0, 0, __builtin_return_address(0)) : Texel{};
}

// dimensions: those of the function that was called.
EMU_OUTLINE Texel fetch_texture(cudaTextureObject_t handle, unsigned dimensions, float x, float y, float z) {
    const Texture& texture = fetched_texture(handle);
    if (texture.dimensions == 0) trap("a fetch from linear memory with another function than tex1Dfetch");
    // An array of one row is read with tex1D too.
    bool fits = texture.dimensions == dimensions || (dimensions == 1 && texture.dimensions == 2 && texture.size[1] == 1);
    if (!fits) trap("a fetch with a function for other dimensions than the texture object has");
    const float coordinates[3] = {x, y, z};
    TextureAxis axes[3] = {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
    for (unsigned axis = 0; axis < dimensions; ++axis) axes[axis] = texture_axis(texture, axis, coordinates[axis]);
    // The filter of tex1D reads a row of height 1 at y = 0, half of which is the border where the second address mode has one.
    if (dimensions == 1) axes[1] = texture_axis(texture, 1, 0);
    if (texture.how.filterMode == cudaFilterModeLinear) return filter_texels(texture, axes, __builtin_return_address(0));
    return texel_at(texture, axes[0].first, axes[1].first, axes[2].first, __builtin_return_address(0));
}

}  // namespace emu

template <class T>
EMU_INLINE T tex1Dfetch(cudaTextureObject_t texture, int x) { return emu::TextureValue<T>::from(emu::fetch_linear(texture, x).words); }
template <class T>
EMU_INLINE typename emu::TextureValue<T>::type tex1Dfetch(T* out, cudaTextureObject_t texture, int x) { *out = tex1Dfetch<T>(texture, x); }
template <class T>
EMU_INLINE T tex1D(cudaTextureObject_t texture, float x) {
    return emu::TextureValue<T>::from(emu::fetch_texture(texture, 1, x, 0, 0).words);
}
template <class T>
EMU_INLINE typename emu::TextureValue<T>::type tex1D(T* out, cudaTextureObject_t texture, float x) { *out = tex1D<T>(texture, x); }
template <class T>
EMU_INLINE T tex2D(cudaTextureObject_t texture, float x, float y) {
    return emu::TextureValue<T>::from(emu::fetch_texture(texture, 2, x, y, 0).words);
}
template <class T>
EMU_INLINE typename emu::TextureValue<T>::type tex2D(T* out, cudaTextureObject_t texture, float x, float y) {
    *out = tex2D<T>(texture, x, y);
}
template <class T>
EMU_INLINE T tex3D(cudaTextureObject_t texture, float x, float y, float z) {
    return emu::TextureValue<T>::from(emu::fetch_texture(texture, 3, x, y, z).words);
}
template <class T>
EMU_INLINE typename emu::TextureValue<T>::type tex3D(T* out, cudaTextureObject_t texture, float x, float y, float z) {
    *out = tex3D<T>(texture, x, y, z);
}
