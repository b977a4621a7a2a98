//! A growable array in segments of fixed size: it grows without copying what it holds (no stall) and without
//! reserving twice what it needs.

/// An array of segments of `1 << BITS` elements each.
pub(crate) struct Segments<E, const BITS: u32> {
    segments: Vec<Vec<E>>,
    len: usize,
}

impl<E, const BITS: u32> Segments<E, BITS> {
    const SEGMENT_LEN: usize = 1 << BITS;

    pub(crate) const fn new() -> Self {
        Self { segments: Vec::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> &E {
        &self.segments[(index >> BITS) as usize][index as usize & (Self::SEGMENT_LEN - 1)]
    }

    #[inline]
    pub(crate) fn try_get(&self, index: u32) -> Option<&E> {
        self.segments.get((index >> BITS) as usize)?.get(index as usize & (Self::SEGMENT_LEN - 1))
    }

    #[inline]
    pub(crate) fn try_get_mut(&mut self, index: u32) -> Option<&mut E> {
        self.segments.get_mut((index >> BITS) as usize)?.get_mut(index as usize & (Self::SEGMENT_LEN - 1))
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> &mut E {
        &mut self.segments[(index >> BITS) as usize][index as usize & (Self::SEGMENT_LEN - 1)]
    }

    #[inline]
    pub(crate) fn push(&mut self, element: E) {
        let segment = self.len >> BITS;
        if segment == self.segments.len() {
            self.segments.push(Vec::with_capacity(Self::SEGMENT_LEN));
        }
        self.segments[segment].push(element);
        self.len += 1;
    }

    /// Removes the last element; its segment stays reserved for the next one.
    pub(crate) fn pop(&mut self) -> Option<E> {
        let last = self.len.checked_sub(1)?;
        self.len = last;
        self.segments[last >> BITS].pop()
    }

    /// Bytes reserved, the directory of segments included.
    pub(crate) fn memory_bytes(&self) -> usize {
        let elements: usize = self.segments.iter().map(Vec::capacity).sum();
        elements * size_of::<E>() + self.segments.capacity() * size_of::<Vec<E>>()
    }
}

#[cfg(test)]
mod tests {
    use super::Segments;

    #[test]
    fn grows_and_shrinks_across_segment_borders() {
        let mut array = Segments::<u32, 2>::new();
        for value in 0..11 {
            array.push(value);
        }
        for value in 0..11 {
            assert_eq!(*array.get(value), value);
        }
        assert!(array.memory_bytes() >= 12 * size_of::<u32>());
        for value in (5..11).rev() {
            assert_eq!(array.pop(), Some(value));
        }
        array.push(50);
        assert_eq!((*array.get(5), array.len()), (50, 6));
        while array.pop().is_some() {}
        assert_eq!(array.len(), 0);
    }
}
